#include "engine/composition/kept_images.h"

#include <utility>

#include "kernels/kernels.h"

namespace stoker {

void KeptImage::reset(Size size) {
    size_ = size;
    bytes_.grow(stride() * static_cast<std::size_t>(size.height) + kRowSlack);
}

KeptImages::Shared KeptImages::find(const Key& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = images_.find(key);
    return found == images_.end() ? nullptr : found->second;
}

KeptImages::Shared KeptImages::make() {
    std::unique_ptr<KeptImage> image;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            image = std::move(free_.back());
            free_.pop_back();
        }
    }
    if (image == nullptr) image = std::make_unique<KeptImage>();
    const auto put_back = [this](KeptImage* unused) {
        const std::lock_guard<std::mutex> lock(mutex_);
        free_.emplace_back(unused);
    };
    return {image.release(), put_back};
}

void KeptImages::keep(const Key& key, const Shared& image) {
    Shared dropped;  // put back after the lock has been released
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!images_.emplace(key, image).second) return;  // another thread was faster
    order_.push_back(key);
    if (order_.size() <= count_) return;
    const auto oldest = images_.find(order_.front());
    dropped = std::move(oldest->second);
    images_.erase(oldest);
    order_.pop_front();
}

}  // namespace stoker
