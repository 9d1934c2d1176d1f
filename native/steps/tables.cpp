// Steps that replace each level of a channel by another.
#include <algorithm>
#include <array>
#include <cstring>

#include "steps/steps.h"

namespace stoker {
namespace {

using Histogram = std::array<std::uint32_t, 256>;

void identity(std::uint8_t* levels) {
    for (int x = 0; x < 256; ++x) levels[x] = static_cast<std::uint8_t>(x);
}

class Table final : public Step {
  public:
    Table(const bool* where, const std::uint8_t* levels) : Step(where), levels_(levels) {}
    void run(std::size_t i, StepRunner& runner) const override {
        LookupTables tables;
        std::memcpy(tables.level, levels_ + i * sizeof tables.level, sizeof tables.level);
        runner.apply_lut(tables);
    }

  private:
    const std::uint8_t* levels_;
};

class Posterize final : public Step {
  public:
    Posterize(const bool* where, const std::uint8_t* bits) : Step(where), bits_(bits) {}
    void run(std::size_t i, StepRunner& runner) const override {
        const int mask = 0xFF00 >> std::min<int>(bits_[i], 8);
        LookupTables tables;
        for (auto& levels : tables.level)
            for (int x = 0; x < 256; ++x) levels[x] = static_cast<std::uint8_t>(x & mask);
        runner.apply_lut(tables);
    }

  private:
    const std::uint8_t* bits_;
};

class Solarize final : public Step {
  public:
    Solarize(const bool* where, const std::int16_t* threshold) : Step(where), threshold_(threshold) {}
    void run(std::size_t i, StepRunner& runner) const override {
        LookupTables tables;
        for (auto& levels : tables.level)
            for (int x = 0; x < 256; ++x) levels[x] = static_cast<std::uint8_t>(x >= threshold_[i] ? 255 - x : x);
        runner.apply_lut(tables);
    }

  private:
    const std::int16_t* threshold_;
};

class Autocontrast final : public Step {
  public:
    using Step::Step;
    void run(std::size_t, StepRunner& runner) const override {
        const PlanarImage& image = runner.image();
        LookupTables tables;
        for (int c = 0; c < 3; ++c) {
            std::uint8_t low = 255, high = 0;
            for (int y = 0; y < image.height(); ++y)
                step_kernels().range(image.row(y) + c * image.plane(), image.width(), &low, &high);
            stretch(low, high, tables.level[c]);
        }
        runner.apply_lut(tables);
    }

  private:
    static void stretch(int low, int high, std::uint8_t* levels) {
        if (low == high) return identity(levels);
        for (int x = 0; x < 256; ++x)
            levels[x] = static_cast<std::uint8_t>((std::clamp(x, low, high) - low) * 255 / (high - low));
    }
};

class Equalize final : public Step {
  public:
    using Step::Step;
    void run(std::size_t, StepRunner& runner) const override {
        const PlanarImage& image = runner.image();
        LookupTables tables;
        for (int c = 0; c < 3; ++c) flatten(histogram_of(image, c), tables.level[c]);
        runner.apply_lut(tables);
    }

  private:
    // Counted four at a time: neighbours are often alike, and a count must not wait for the one before.
    static Histogram histogram_of(const PlanarImage& image, int channel) {
        std::array<Histogram, 4> counts{};
        for (int y = 0; y < image.height(); ++y) {
            const std::uint8_t* row = image.row(y) + channel * image.plane();
            int x = 0;
            for (; x + 4 <= image.width(); x += 4)
                for (std::size_t i = 0; i < 4; ++i) ++counts[i][row[x + static_cast<int>(i)]];
            for (; x < image.width(); ++x) ++counts[0][row[x]];
        }
        for (std::size_t level = 0; level < 256; ++level)
            counts[0][level] += counts[1][level] + counts[2][level] + counts[3][level];
        return counts[0];
    }

    static void flatten(const Histogram& histogram, std::uint8_t* levels) {
        std::uint32_t total = 0, highest = 0;
        for (const std::uint32_t count : histogram) {
            total += count;
            if (count != 0) highest = count;
        }
        const std::uint32_t step = (total - highest) / 255;
        if (step == 0) return identity(levels);
        std::uint32_t before = 0;
        for (std::size_t x = 0; x < 256; ++x) {
            levels[x] = static_cast<std::uint8_t>(std::min<std::uint32_t>((before + step / 2) / step, 255));
            before += histogram[x];
        }
    }
};

}  // namespace

std::unique_ptr<Step> make_table(const bool* where, const std::uint8_t* levels) {
    return std::make_unique<Table>(where, levels);
}
std::unique_ptr<Step> make_posterize(const bool* where, const std::uint8_t* bits) {
    return std::make_unique<Posterize>(where, bits);
}
std::unique_ptr<Step> make_solarize(const bool* where, const std::int16_t* threshold) {
    return std::make_unique<Solarize>(where, threshold);
}
std::unique_ptr<Step> make_autocontrast(const bool* where) { return std::make_unique<Autocontrast>(where); }
std::unique_ptr<Step> make_equalize(const bool* where) { return std::make_unique<Equalize>(where); }

}  // namespace stoker
