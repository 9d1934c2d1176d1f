#include "engine/composition/composer.h"

#include <cstring>

namespace stoker {
namespace {

// Returns where image `i`, whose first part is `first`, is stored.
Target target_of(const ImageArray& images, std::size_t first, std::size_t i) {
    Target target = images.target(first);
    target.out = static_cast<std::uint8_t*>(images.out) + i * target.bytes;
    return target;
}

void blend(std::uint8_t* to, const std::uint8_t* from, int count, std::uint32_t share) {
    const std::uint32_t rest = Composition::kWhole - share;
    for (int x = 0; x < count; ++x)
        to[x] = static_cast<std::uint8_t>((share * from[x] + rest * to[x] + Composition::kWhole / 2) >> 16);
}

void replace(std::uint8_t* to, const std::uint8_t* from, int count, const std::uint8_t* mask) {
    for (int x = 0; x < count; ++x) to[x] = mask[x] != 0 ? from[x] : to[x];
}

}  // namespace

void Composer::run(Batch& batch, std::size_t i, SampleRunner& runner) {
    const BatchWork& work = batch.work();
    const Composition& composition = work.composition;
    const std::size_t first = composition.first[i], end = composition.first[i + 1];
    bool good = false;
    const Outcome whole = guard_.run([&]() -> Outcome {
        failures_.assign(end - first, {Status::ok, {}});
        good = compose(work, i, runner);
        if (good) store(work, i);
        return {};
    });
    if (!good || !whole.ok()) {
        const Target target = target_of(work.images.front(), first, i);
        std::memset(target.out, 0, target.bytes);
    }
    for (std::size_t part = first; part < end; ++part) {
        if (!whole.ok()) {
            batch.finish(part, whole.status, whole.message);
            continue;
        }
        const Failure& failure = failures_[part - first];
        batch.finish(part, failure.status, failure.message.c_str());
    }
}

// Draws all parts on the canvas. Returns false if a sample cannot be read.
bool Composer::compose(const BatchWork& work, std::size_t i, SampleRunner& runner) {
    const Composition& composition = work.composition;
    const CompositionColumns& columns = composition.columns;
    const std::size_t first = composition.first[i], end = composition.first[i + 1];
    const Target target = target_of(work.images.front(), first, i);
    const Size output{target.height, target.width};
    bool good = true;
    begin_layer(canvas_, target);
    for (std::size_t part = first; part < end; ++part) {
        const bool above = columns.layer[part] > 0;
        if (above && columns.layer[part] != columns.layer[part - 1]) begin_layer(layer_, target);
        if (columns.shown[part]) {
            const Outcome outcome = runner.render(work, part, above ? layer_ : canvas_, sink_);
            if (!outcome.ok()) failures_[part - first] = {outcome.status, outcome.message};
            good = good && outcome.ok();
        }
        const bool last = part + 1 == end || columns.layer[part + 1] != columns.layer[part];
        if (above && last) merge(composition, part, output);
    }
    return good;
}

void Composer::begin_layer(PlanarImage& canvas, const Target& target) {
    canvas.reset(target.height, target.width);
    for (int y = 0; y < target.height; ++y) canvas.fill(y, 0, target.width, target.fill);
}

// Puts the finished layer of `part` onto the canvas.
void Composer::merge(const Composition& composition, std::size_t part, Size output) {
    const std::uint8_t* mask = composition.mask(part, output);
    const auto share = static_cast<std::uint32_t>(composition.columns.share[part]);
    for (int y = 0; y < output.height; ++y)
        for (int c = 0; c < 3; ++c) {
            std::uint8_t* to = canvas_.row(y) + c * canvas_.plane();
            const std::uint8_t* from = layer_.row(y) + c * layer_.plane();
            if (mask == nullptr)
                blend(to, from, output.width, share);
            else
                replace(to, from, output.width, mask + static_cast<std::size_t>(y) * static_cast<std::size_t>(output.width));
        }
}

void Composer::store(const BatchWork& work, std::size_t i) {
    const ImageArray& images = work.images.front();
    const std::size_t first = work.composition.first[i];
    finisher_.run(images, first, target_of(images, first, i), canvas_);
}

}  // namespace stoker
