// An array of images of a batch, which Python describes and a batch takes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bind/bind.h"
#include "bind/columns.h"
#include "bind/engine/python_steps.h"
#include "bind/steps.h"
#include "engine/composition/composition.h"
#include "engine/images/image_array.h"

namespace stoker {

using Out = nb::ndarray<nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using PlanarImages = Array<const std::uint8_t, nb::shape<-1, 3, -1, -1>>;

// The images of a batch in one array, and the arrays that they read and write.
class BoundImageArray {
  public:
    BoundImageArray(const nb::dict& params, const Out& out, int layout, BoundSteps* steps,
                    const std::vector<nb::dict>& erase, bool exact, const nb::dict& composition,
                    std::shared_ptr<const PythonSteps> last_steps);
    BoundImageArray(const BoundImageArray&) = delete;
    BoundImageArray& operator=(const BoundImageArray&) = delete;

    // Moves the images and their arrays to a batch. This is possible once, because threads execute steps from then on.
    ImageArray take(KeptArrays& kept);
    // Stores images on the calling thread, from their pixels before colours. No batch can take the images then.
    void finish(const std::vector<PlanarImages>& parts);
    // Returns the samples of each image; it is empty if each image shows one sample.
    Composition composition() const;

  private:
    ImageArray images_;
    std::size_t image_count_ = 0;
    CompositionColumns composition_;
    KeptArrays kept_;
    bool taken_ = false;
};

}  // namespace stoker
