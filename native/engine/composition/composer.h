// The execution of one image that is made of several samples.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "decode/guard.h"
#include "engine/batch.h"
#include "engine/composition/part_sink.h"
#include "engine/images/image_finisher.h"
#include "engine/sample_runner.h"
#include "pixels/planar_image.h"

namespace stoker {

// The canvases of one thread, which are used for one image after the other.
class Composer {
  public:
    // Makes image `i` of a batch whose images have several parts, and reports the status of each part.
    void run(Batch& batch, std::size_t i, SampleRunner& runner);

  private:
    struct Failure {
        Status status;
        std::string message;
    };

    bool compose(const BatchWork& work, std::size_t i, SampleRunner& runner);
    void begin_layer(PlanarImage& canvas, const Target& target);
    void merge(const Composition& composition, std::size_t part, Size output);
    void store(const BatchWork& work, std::size_t i);

    PlanarImage canvas_, layer_;
    PartSink sink_;
    ImageFinisher finisher_;
    Guard guard_;
    std::vector<Failure> failures_;  // by part, from the image's first
};

}  // namespace stoker
