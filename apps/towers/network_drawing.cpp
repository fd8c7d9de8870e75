#include "apps/towers/network_drawing.h"

#include "engine/layers/layer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

namespace towers {
namespace {

constexpr double box_width = NetworkDrawing::box_width, box_height = NetworkDrawing::box_height;
constexpr double gap = 16;        // between boxes side by side
constexpr double row_gap = 22;    // between a box and the next below it
constexpr double line_width = 12; // for a line that passes beside boxes
constexpr double column_gap = 44;

/// A box with the boxes whose outputs it reads; -1: the images.
struct Group {
    NetworkBox box;
    std::set<int> inputs;
    bool elementwise = true; ///< all its layers are of a family
};

std::string shape_text(const Shape& shape) {
    if (shape.height == 1 && shape.width == 1) return fmt::format("{}", shape.channels);
    return fmt::format("{} × {} × {}", shape.height, shape.width, shape.channels);
}

/// `conv2d 3×3`: the kind, with the window of a layer that has one in its weights.
std::string kind_text(const Node& node, const std::vector<Variable>& variables) {
    for (const Variable& variable : variables)
        if (variable.shape.size() == 4 && variable.role == Role::trained)
            return fmt::format("{} {}×{}", node.kind, variable.shape[0], variable.shape[1]);
    return node.kind;
}

std::size_t trained(const std::vector<Variable>& variables) {
    std::size_t count = 0;
    for (const Variable& variable : variables)
        if (variable.role == Role::trained) count += variable.elements();
    return count;
}

/// The boxes of a network, each behind its inputs.
std::vector<Group> group(const Model& model) {
    std::vector<unsigned> readers(model.nodes.size());
    for (const Node& node : model.nodes)
        for (const int from : node.inputs)
            if (from >= 0) ++readers[std::size_t(from)];
    for (const LossHead& head : model.heads) ++readers[std::size_t(head.node)];
    std::vector<Group> groups;
    std::vector<int> of(model.nodes.size());
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        const Node& node = model.nodes[i];
        const std::vector<Variable> variables = node.layer->variables(model.input_shapes(node));
        const bool elementwise = family_of(node.kind) != LayerFamily::other;
        const int from = node.inputs.size() == 1 ? node.inputs[0] : -1;
        const int before = from >= 0 && readers[std::size_t(from)] == 1 ? of[std::size_t(from)] : -1;
        if (before >= 0 && (elementwise || groups[std::size_t(before)].elementwise)) {
            Group& joined = groups[std::size_t(before)];
            joined.box.kinds += ", " + kind_text(node, variables);
            joined.box.shape = shape_text(node.output);
            joined.box.parameters += trained(variables);
            joined.elementwise = joined.elementwise && elementwise;
            of[i] = before;
            continue;
        }
        Group made{.box = {.name = node.name,
                           .kinds = kind_text(node, variables),
                           .shape = shape_text(node.output),
                           .parameters = trained(variables)},
                   .inputs = {},
                   .elementwise = elementwise};
        for (const int input : node.inputs) made.inputs.insert(input < 0 ? -1 : of[std::size_t(input)]);
        of[i] = int(groups.size());
        groups.push_back(std::move(made));
    }
    return groups;
}

/// Boxes that follow each other, of which only the last one's output goes on to later ones.
struct Segment {
    std::size_t first = 0, count = 0;
    unsigned times = 1;
};

/// What tells a segment from others: boxes and the lines between them.
std::string signature(const std::vector<Group>& groups, const Segment& segment) {
    std::string text;
    for (std::size_t i = segment.first; i < segment.first + segment.count; ++i) {
        const NetworkBox& box = groups[i].box;
        text += fmt::format("{}|{}|{}", box.kinds, box.shape, box.parameters);
        for (const int input : groups[i].inputs)
            text += fmt::format(",{}", std::max<int>(-1, input - int(segment.first)));
        text += ';';
    }
    return text;
}

std::vector<Segment> segments_of(const std::vector<Group>& groups) {
    std::vector<std::size_t> last_reader(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i)
        for (const int input : groups[i].inputs)
            if (input >= 0) last_reader[std::size_t(input)] = i;
    std::vector<Segment> segments;
    Segment now;
    std::size_t needed = 0; // the last box that reads one before the current
    for (std::size_t i = 0; i < groups.size(); ++i) {
        ++now.count;
        if (needed <= i) {
            Segment* const before = segments.empty() ? nullptr : &segments.back();
            if (before != nullptr && signature(groups, *before) == signature(groups, now))
                ++before->times;
            else
                segments.push_back(now);
            now = {.first = i + 1};
        }
        needed = std::max(needed, last_reader[i]);
    }
    if (now.count > 0) segments.push_back(now);
    return segments;
}

struct Point {
    double x = 0, y = 0;
};

/// A place in a row: a box, or a line that passes from an earlier row to a later one.
struct Place {
    int group = -1;  ///< -1: a line
    int from = -1;   ///< whose output the line carries
    double wish = 0; ///< where it would like to be: the middle of what it comes from
    double x = 0;    ///< its middle
    double width() const { return group < 0 ? line_width : box_width; }
};

/// Draws one segment below a point, with y = 0 at its upper edge and x = 0 in its middle.
class SegmentDrawing {
public:
    SegmentDrawing(const std::vector<Group>& groups, const Segment& segment)
        : groups_(groups), first_(int(segment.first)), end_(int(segment.first + segment.count)) {
        make_rows();
        place();
    }

    double width() const { return width_; }
    double height() const { return double(rows_.size()) * (box_height + row_gap); }

    /// Where the output leaves at the bottom.
    double exit() const {
        for (const Place& place : rows_.back())
            if ((place.group >= 0 ? place.group : place.from) == end_ - 1) return place.x;
        return 0;
    }

    /// Adds boxes and lines with the upper edge's middle at `at`. The input comes down `entry` beside it.
    void draw(NetworkDrawing& drawing, Point at, double entry, bool has_input) const {
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const double y = at.y + double(row) * (box_height + row_gap) + row_gap;
            for (const Place& place : rows_[row]) {
                if (place.group >= 0) {
                    NetworkBox box = groups_[std::size_t(place.group)].box;
                    box.x = at.x + place.x - box_width / 2;
                    box.y = y;
                    drawing.boxes.push_back(std::move(box));
                    for (const int from : groups_[std::size_t(place.group)].inputs)
                        if (from >= first_ || has_input)
                            line(drawing, at, row, place.x, row == 0 ? entry : source(row, from));
                } else {
                    line(drawing, at, row, place.x, row == 0 ? entry : source(row, place.from));
                    drawing.lines.push_back(
                        fmt::format("M{:.1f} {:.1f}V{:.1f}", at.x + place.x, y, y + box_height));
                }
            }
        }
    }

private:
    int local(int from) const { return from < first_ ? -1 : from; }

    void make_rows() {
        std::map<int, std::size_t> row_of, until; // the last row that reads it
        std::size_t count = 0;
        for (int i = first_; i < end_; ++i) {
            std::size_t row = 0;
            for (const int from : groups_[std::size_t(i)].inputs)
                if (from >= first_) row = std::max(row, row_of[from] + 1);
            row_of[i] = row;
            count = std::max(count, row + 1);
            for (const int from : groups_[std::size_t(i)].inputs)
                until[local(from)] = std::max(until[local(from)], row);
        }
        until[end_ - 1] = count; // the output leaves at the bottom
        rows_.resize(count);
        for (int i = first_; i < end_; ++i) rows_[row_of[i]].push_back({.group = i});
        for (const auto& [from, last] : until) {
            const std::size_t next = from < 0 ? 0 : row_of[from] + 1;
            for (std::size_t row = next; row < last; ++row) rows_[row].push_back({.group = -1, .from = from});
        }
    }

    void place() {
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            for (Place& place : rows_[row]) place.wish = wish(row, place);
            std::ranges::stable_sort(rows_[row], {}, &Place::wish);
            double width = -gap;
            for (const Place& place : rows_[row]) width += place.width() + gap;
            // As near to the wishes as the order allows: the row keeps together around their middle.
            double x = -width / 2;
            for (Place& place : rows_[row]) {
                place.x = x + place.width() / 2;
                x += place.width() + gap;
            }
            width_ = std::max(width_, width);
        }
    }

    double wish(std::size_t row, const Place& place) const {
        if (place.group < 0) return source(row, place.from) + 1e-3; // lines to the right
        double sum = 0;
        const std::set<int>& inputs = groups_[std::size_t(place.group)].inputs;
        for (const int from : inputs) sum += source(row, from);
        return inputs.empty() ? 0 : sum / double(inputs.size());
    }

    /// The middle of what a line into `row` comes from: in the row above.
    double source(std::size_t row, int from) const {
        if (row == 0) return 0;
        for (const Place& place : rows_[row - 1])
            if (place.group >= 0 ? place.group == from : place.from == local(from)) return place.x;
        return 0;
    }

    static void line(NetworkDrawing& drawing, Point at, std::size_t row, double x, double from) {
        const double top = at.y + double(row) * (box_height + row_gap);
        const double bottom = top + row_gap, middle = (top + bottom) / 2;
        drawing.lines.push_back(fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}",
                                            at.x + from, top, at.x + from, middle + 4, at.x + x, middle - 4,
                                            at.x + x, bottom));
    }

    const std::vector<Group>& groups_;
    int first_, end_;
    std::vector<std::vector<Place>> rows_;
    double width_ = 0;
};

/// Segments below each other.
struct Column {
    std::vector<std::size_t> segments;
    double width = 0, height = 0;
};

std::vector<Column> columns_of(const std::vector<SegmentDrawing>& parts) {
    double all = 0, tallest = 0;
    for (const SegmentDrawing& part : parts) {
        all += part.height();
        tallest = std::max(tallest, part.height());
    }
    const double most = std::max({tallest, 4 * (box_height + row_gap), std::sqrt(all * box_width) * 1.1});
    std::vector<Column> columns(1);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (columns.back().height > 0 && columns.back().height + parts[i].height() > most)
            columns.emplace_back();
        Column& column = columns.back();
        column.segments.push_back(i);
        column.width = std::max(column.width, parts[i].width());
        column.height += parts[i].height();
    }
    if (Column& last = columns.back(); columns.size() > 1 && last.height < most / 3) { // not worth its width
        Column& before = columns[columns.size() - 2];
        before.segments.insert(before.segments.end(), last.segments.begin(), last.segments.end());
        before.width = std::max(before.width, last.width);
        columns.pop_back();
    }
    return columns;
}

} // namespace

NetworkDrawing draw_network(const Model& model) {
    std::vector<Group> groups = group(model);
    // The images have a box too.
    for (Group& each : groups) {
        std::set<int> shifted;
        for (const int from : each.inputs) shifted.insert(from + 1);
        each.inputs = std::move(shifted);
    }
    groups.insert(groups.begin(),
                  Group{.box = {.name = "images", .shape = shape_text(model.input)}, .inputs = {}});
    const std::vector<Segment> segments = segments_of(groups);
    std::vector<SegmentDrawing> parts;
    for (const Segment& segment : segments) parts.emplace_back(groups, segment);

    NetworkDrawing drawing;
    constexpr double edge = 8;
    double left = edge;
    Point end;        // of the line that leaves the part before
    double entry = 0; // where it is beside the middle of the next
    for (const Column& column : columns_of(parts)) {
        Point at{left + column.width / 2, edge};
        for (const std::size_t i : column.segments) {
            if (i > 0 && i == column.segments.front()) { // from the bottom of the column before to the top
                const double gutter = left - column_gap / 2;
                drawing.lines.push_back(fmt::format("M{:.1f} {:.1f}v6H{:.1f}V{:.1f}H{:.1f}V{:.1f}", end.x,
                                                    end.y, gutter, edge, at.x, at.y + 1));
                entry = 0;
            }
            parts[i].draw(drawing, at, entry, i > 0);
            if (segments[i].times > 1)
                drawing.repeats.push_back({.times = segments[i].times,
                                           .x = at.x - parts[i].width() / 2 - 6,
                                           .y = at.y + row_gap - 6,
                                           .width = parts[i].width() + 12,
                                           .height = parts[i].height() - row_gap + 12});
            at.y += parts[i].height();
            entry = parts[i].exit();
            end = {at.x + entry, at.y};
        }
        drawing.height = std::max(drawing.height, at.y + edge + 8);
        left += column.width + column_gap;
    }
    drawing.width = left - column_gap + edge;
    return drawing;
}

} // namespace towers
