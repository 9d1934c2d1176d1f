// Steps that replace each value of a channel by another, by a lookup table.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/steps/step_kernels.h"
#include "steps/step_kinds.h"
#include "steps/step_runner.h"

namespace stoker {
namespace {

using Histogram = std::array<std::uint32_t, 256>;

void identity(std::uint8_t* table) {
    for (int x = 0; x < 256; ++x) table[x] = static_cast<std::uint8_t>(x);
}

struct TableColumns {
    const bool* where;
    const std::uint8_t* levels;
};

// Replaces each value of each channel by another.
class Table final : public ColumnStep<TableColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::levels>("levels", {3, 256}),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        LookupTables tables;
        std::memcpy(tables.channel, columns_.levels + i * sizeof tables.channel, sizeof tables.channel);
        runner.apply_lut(tables);
    }
};

struct PosterizeColumns {
    const bool* where;
    const std::uint8_t* bits;
};

// Keeps the highest bits of each value.
class Posterize final : public ColumnStep<PosterizeColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::bits>("bits"),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        const int mask = 0xFF00 >> std::min<int>(columns_.bits[i], 8);
        LookupTables tables;
        for (auto& values : tables.channel)
            for (int x = 0; x < 256; ++x) values[x] = static_cast<std::uint8_t>(x & mask);
        runner.apply_lut(tables);
    }
};

struct SolarizeColumns {
    const bool* where;
    const std::int16_t* threshold;
};

// Inverts values from a threshold on.
class Solarize final : public ColumnStep<SolarizeColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::threshold>("threshold"),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        LookupTables tables;
        for (auto& values : tables.channel)
            for (int x = 0; x < 256; ++x)
                values[x] = static_cast<std::uint8_t>(x >= columns_.threshold[i] ? 255 - x : x);
        runner.apply_lut(tables);
    }
};

// The columns of a step without parameters.
struct PlainColumns {
    const bool* where;
};
inline constexpr Column kPlainColumns[] = {per_sample<&PlainColumns::where>("where")};

// Stretches the range of each channel to 0..255.
class Autocontrast final : public ColumnStep<PlainColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr std::span<const Column> kColumns = kPlainColumns;

    void run(std::size_t, StepRunner& runner) const override {
        const PlanarImage& image = runner.image();
        LookupTables tables;
        for (int c = 0; c < 3; ++c) {
            std::uint8_t low = 255, high = 0;
            for (int y = 0; y < image.height(); ++y)
                step_kernels().range(image.row(y) + c * image.plane(), image.width(), &low, &high);
            stretch(low, high, tables.channel[c]);
        }
        runner.apply_lut(tables);
    }

  private:
    static void stretch(int low, int high, std::uint8_t* table) {
        if (low == high) return identity(table);
        for (int x = 0; x < 256; ++x)
            table[x] = static_cast<std::uint8_t>((std::clamp(x, low, high) - low) * 255 / (high - low));
    }
};

// Flattens each channel's histogram.
class Equalize final : public ColumnStep<PlainColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr std::span<const Column> kColumns = kPlainColumns;

    void run(std::size_t, StepRunner& runner) const override {
        const PlanarImage& image = runner.image();
        LookupTables tables;
        for (int c = 0; c < 3; ++c) flatten(histogram_of(image, c), tables.channel[c]);
        runner.apply_lut(tables);
    }

  private:
    // Four histograms are counted in turn: neighbours often have one value, and a count would wait for the one before.
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

    static void flatten(const Histogram& histogram, std::uint8_t* table) {
        std::uint32_t total = 0, highest = 0;
        for (const std::uint32_t count : histogram) {
            total += count;
            if (count != 0) highest = count;
        }
        const std::uint32_t step = (total - highest) / 255;
        if (step == 0) return identity(table);
        std::uint32_t before = 0;
        for (std::size_t x = 0; x < 256; ++x) {
            table[x] = static_cast<std::uint8_t>(std::min<std::uint32_t>((before + step / 2) / step, 255));
            before += histogram[x];
        }
    }
};

const RegisteredStep table{step_kind<Table>("table")};
const RegisteredStep posterize{step_kind<Posterize>("posterize")};
const RegisteredStep solarize{step_kind<Solarize>("solarize")};
const RegisteredStep autocontrast{step_kind<Autocontrast>("autocontrast")};
const RegisteredStep equalize{step_kind<Equalize>("equalize")};

}  // namespace
}  // namespace stoker
