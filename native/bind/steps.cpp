#include "bind/steps.h"

namespace stoker {
namespace {

using Where = Column<bool>;
template <class T, int... shape>
using Rows = Array<const T, nb::shape<-1, shape...>>;

constexpr int kMaxTaps = 1 << 15;

void affine(BoundSteps& self, const Where& where, const Rows<float, 3, 4>& color,
            std::optional<Rows<float, 3, 3>> mean) {
    auto step = make_affine(where.data(), color.data(), mean ? mean->data() : nullptr);
    if (mean)
        self.append(std::move(step), where, color, *mean);
    else
        self.append(std::move(step), where, color);
}

void blur(BoundSteps& self, const Where& where, std::pair<int, int> kernel_size, const Rows<float, 2>& sigma) {
    for (const int taps : {kernel_size.first, kernel_size.second})
        if (taps < 1 || taps > kMaxTaps || taps % 2 == 0)
            throw nb::value_error("kernel_size must be two odd numbers within 1 to 32768");
    self.append(make_blur(where.data(), kernel_size.first, kernel_size.second, sigma.data()), where, sigma);
}

void shift(BoundSteps& self, const Where& where, const Rows<double, 3, 3>& matrix,
           std::tuple<std::uint8_t, std::uint8_t, std::uint8_t> fill, bool nearest) {
    const auto& [red, green, blue] = fill;
    const std::uint8_t rgb[3] = {red, green, blue};
    self.append(make_shift(where.data(), matrix.data(), rgb, nearest), where, matrix);
}

void mix(BoundSteps& self, const Where& where, const Rows<float, -1>& weights, const std::vector<BoundSteps*>& chains) {
    if (weights.shape(1) != chains.size() + 1)
        throw nb::value_error("weights must have a column for the image and one for each chain");
    std::vector<Steps> steps;
    for (BoundSteps* chain : chains) {
        if (chain == nullptr || chain == &self || chain->count() != self.count())
            throw nb::value_error("chains must be other steps of as many samples");
        steps.push_back(chain->take());
        self.keep(chain->arrays());
    }
    self.append(make_mix(where.data(), weights.data(), std::move(steps)), where, weights);
}

}  // namespace

void bind_steps(nb::module_& m) {
    nb::class_<BoundSteps>(m, "Steps")
        .def(nb::init<std::size_t>(), "count"_a)
        .def("affine", affine, "where"_a, "color"_a, "mean"_a.none())
        .def("table",
             [](BoundSteps& self, const Where& where, const Rows<std::uint8_t, 3, 256>& levels) {
                 self.append(make_table(where.data(), levels.data()), where, levels);
             }, "where"_a, "levels"_a)
        .def("posterize",
             [](BoundSteps& self, const Where& where, const Column<std::uint8_t>& bits) {
                 self.append(make_posterize(where.data(), bits.data()), where, bits);
             }, "where"_a, "bits"_a)
        .def("solarize",
             [](BoundSteps& self, const Where& where, const Column<std::int16_t>& threshold) {
                 self.append(make_solarize(where.data(), threshold.data()), where, threshold);
             }, "where"_a, "threshold"_a)
        .def("autocontrast",
             [](BoundSteps& self, const Where& where) { self.append(make_autocontrast(where.data()), where); },
             "where"_a)
        .def("equalize",
             [](BoundSteps& self, const Where& where) { self.append(make_equalize(where.data()), where); }, "where"_a)
        .def("sharpen",
             [](BoundSteps& self, const Where& where, const Column<float>& factor) {
                 self.append(make_sharpen(where.data(), factor.data()), where, factor);
             }, "where"_a, "factor"_a)
        .def("blur", blur, "where"_a, "kernel_size"_a, "sigma"_a)
        .def("shift", shift, "where"_a, "matrix"_a, "fill"_a, "nearest"_a = false)
        .def("mix", mix, "where"_a, "weights"_a, "chains"_a);
}

}  // namespace stoker
