#include "transcode/jpeg_encoder.h"

#include <csetjmp>
#include <cstddef>
#include <memory>
#include <stdexcept>

#include "restarts/layout.h"
#include "transcode/jpeg_output.h"

namespace stoker {
namespace {

struct Encoder {
    jpeg_compress_struct encoder{};
    jpeg_error_mgr errors{};
    JpegOutput output;
    std::jmp_buf jump{};
    char message[JMSG_LENGTH_MAX] = "";

    Encoder() {
        encoder.err = jpeg_std_error(&errors);
        errors.error_exit = [](j_common_ptr encoder) {
            Encoder& self = *static_cast<Encoder*>(encoder->client_data);
            encoder->err->format_message(encoder, self.message);
            std::longjmp(self.jump, 1);
        };
        errors.emit_message = [](j_common_ptr, int) {};
        encoder.client_data = this;
    }
    ~Encoder() { jpeg_destroy_compress(&encoder); }
    Encoder(const Encoder&) = delete;
    Encoder& operator=(const Encoder&) = delete;

    // This method has only plain data on its stack, so that a longjmp of libjpeg skips no destructor.
    bool run(const std::uint8_t* rgb, int height, int width, const JpegOptions& options) {
        if (setjmp(jump)) return false;
        jpeg_create_compress(&encoder);
        encoder.dest = output.manager();
        encoder.image_height = static_cast<JDIMENSION>(height);
        encoder.image_width = static_cast<JDIMENSION>(width);
        encoder.input_components = 3;
        encoder.in_color_space = JCS_RGB;
        jpeg_set_defaults(&encoder);
        jpeg_set_quality(&encoder, options.quality, TRUE);
        encoder.comp_info[0].h_samp_factor = options.subsampling == Subsampling::s444 ? 1 : 2;
        encoder.comp_info[0].v_samp_factor = options.subsampling == Subsampling::s420 ? 2 : 1;
        if (options.restarts) {
            const unsigned mcu_width = 8 * static_cast<unsigned>(encoder.comp_info[0].h_samp_factor);
            encoder.restart_interval = restart_interval((encoder.image_width + mcu_width - 1) / mcu_width);
        }
        jpeg_start_compress(&encoder, TRUE);
        while (encoder.next_scanline < encoder.image_height) {
            const std::uint8_t* row = rgb + static_cast<std::size_t>(encoder.next_scanline) *
                                                static_cast<std::size_t>(width) * 3;
            JSAMPROW rows[1] = {const_cast<JSAMPROW>(row)};  // libjpeg does not write to its input
            jpeg_write_scanlines(&encoder, rows, 1);
        }
        jpeg_finish_compress(&encoder);
        return true;
    }
};

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* rgb, int height, int width, const JpegOptions& options) {
    const auto encoder = std::make_unique<Encoder>();
    if (!encoder->run(rgb, height, width, options)) throw std::runtime_error(encoder->message);
    return encoder->output.bytes();
}

}  // namespace stoker
