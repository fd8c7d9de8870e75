#include "tests/conformance/reference_winograd.h"

#include <cmath>

namespace towers::reference {
namespace {

constexpr double finite_points[] = {0, 1, -1, 2, -2, 0.5, -0.5};

/// The coefficients of 1, x, x^2, ... of the product of (x - point) over the finite points but `left_out`
Values product_without(std::size_t points, std::size_t left_out) {
    Values product{1};
    for (std::size_t i = 0; i + 1 < points; ++i) {
        if (i == left_out) continue;
        Values next(product.size() + 1);
        for (std::size_t k = 0; k < product.size(); ++k) {
            next[k + 1] += product[k];
            next[k] -= finite_points[i] * product[k];
        }
        product = next;
    }
    return product;
}

} // namespace

Matrix winograd_image_matrix(std::size_t points) {
    Matrix m{points, points, Values(points * points)};
    for (std::size_t i = 0; i < points; ++i) {
        const Values coefficients = product_without(points, i); // for infinity of all the others
        for (std::size_t k = 0; k < coefficients.size(); ++k) m.values[i * points + k] = coefficients[k];
    }
    return m;
}

Matrix winograd_weight_matrix(std::size_t points, std::size_t taps) {
    Matrix m{points, taps, Values(points * taps)};
    for (std::size_t i = 0; i + 1 < points; ++i) {
        double others = 1;
        for (std::size_t j = 0; j + 1 < points; ++j)
            if (j != i) others *= finite_points[i] - finite_points[j];
        for (std::size_t k = 0; k < taps; ++k)
            m.values[i * taps + k] = std::pow(finite_points[i], double(k)) / others;
    }
    m.values.back() = 1;
    return m;
}

Matrix winograd_result_matrix(std::size_t points, std::size_t results) {
    Matrix m{results, points, Values(results * points)};
    for (std::size_t j = 0; j < results; ++j)
        for (std::size_t i = 0; i + 1 < points; ++i)
            m.values[j * points + i] = std::pow(finite_points[i], double(j));
    m.values.back() = 1;
    return m;
}

Values transform_square(const Matrix& m, const Values& square) {
    Values result(m.rows * m.rows);
    for (std::size_t i = 0; i < m.rows; ++i)
        for (std::size_t j = 0; j < m.rows; ++j)
            for (std::size_t y = 0; y < m.columns; ++y)
                for (std::size_t x = 0; x < m.columns; ++x)
                    result[i * m.rows + j] += m.at(i, y) * m.at(j, x) * square[y * m.columns + x];
    return result;
}

} // namespace towers::reference
