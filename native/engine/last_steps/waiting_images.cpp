#include "engine/last_steps/waiting_images.h"

#include <algorithm>
#include <span>
#include <utility>

namespace stoker {

void WaitingImages::add(const ImageArray& images, std::size_t i, PlanarImage& image) {
    auto group = std::ranges::find_if(groups_, [&](const Group& one) { return one.array == &images; });
    if (group == groups_.end()) group = std::ranges::find_if(groups_, [](const Group& one) { return one.rows.empty(); });
    if (group == groups_.end()) group = groups_.emplace(group);
    if (group->images.size() <= group->rows.size()) group->images.emplace_back();
    group->array = &images;
    group->rows.push_back(i);
    std::swap(group->images[group->rows.size() - 1], image);
}

void WaitingImages::finish(ImageFinisher& finisher) {
    for (Group& group : groups_) {
        if (group.rows.empty()) continue;
        group.array->last_steps->run(group.rows, std::span(group.images).first(group.rows.size()));
        for (std::size_t k = 0; k < group.rows.size(); ++k)
            finisher.store(*group.array, group.rows[k], group.array->target(group.rows[k]), group.images[k]);
    }
}

void WaitingImages::clear() {
    for (Group& group : groups_) {
        group.array = nullptr;
        group.rows.clear();
    }
}

}  // namespace stoker
