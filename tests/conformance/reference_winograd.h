// Winograd's transforms by the definition of Toom and Cook, in double precision.
#pragma once

#include "tests/conformance/reference.h"

#include <cstddef>

namespace towers::reference {

/// [rows, columns]
struct Matrix {
    std::size_t rows, columns;
    Values values;
    double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

/// [points, points]; `points`: 4, 6 or 8, of which the last is infinity
Matrix winograd_image_matrix(std::size_t points);
/// [points, taps]
Matrix winograd_weight_matrix(std::size_t points, std::size_t taps);
/// [results, points]
Matrix winograd_result_matrix(std::size_t points, std::size_t results);

/// M square M^T of a square of M's columns
Values transform_square(const Matrix& m, const Values& square);

} // namespace towers::reference
