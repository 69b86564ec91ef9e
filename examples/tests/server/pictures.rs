//! Pictures as files: in which format they come and go, and which are refused.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageEncoder, ImageFormat, Luma, Rgb, RgbImage, Rgba, RgbaImage};

use crate::client::Server;

fn file(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.into().write_to(&mut file, format).expect("it is written");
    file.into_inner()
}

fn luma(rgb: [u8; 3]) -> u8 {
    let [r, g, b] = rgb.map(f32::from);
    (0.2126 * r + 0.7152 * g + 0.0722 * b) as u8
}

#[test]
fn a_png_comes_back_as_a_png_without_its_colours() {
    let server = Server::start();
    let picture =
        RgbaImage::from_fn(37, 5, |x, y| Rgba([(x * 6) as u8, (y * 50) as u8, (x * y) as u8, (x + 9) as u8]));
    let answer = server.ask("POST", "/picture", &file(picture.clone(), ImageFormat::Png));
    assert_eq!((answer.code, answer.header("content-type")), (200, Some("image/png")), "{}", answer.why());
    let gray =
        image::load_from_memory_with_format(&answer.body, ImageFormat::Png).expect("a PNG").into_rgba8();
    assert_eq!(gray.dimensions(), (37, 5));
    for (before, after) in picture.pixels().zip(gray.pixels()) {
        let [r, g, b, alpha] = before.0;
        let [x, y, z, same] = after.0;
        assert!(
            x.abs_diff(luma([r, g, b])) <= 1 && x == y && y == z && alpha == same,
            "{before:?} {after:?}"
        );
    }
}

/// A JPEG's values are near what they were.
#[test]
fn a_jpeg_comes_back_as_a_jpeg_unless_it_is_asked_otherwise() {
    let server = Server::start();
    let jpeg = file(RgbImage::from_pixel(40, 24, Rgb([200, 100, 50])), ImageFormat::Jpeg);
    for (accept, mime, format) in [
        ("", "image/jpeg", ImageFormat::Jpeg),
        ("Accept: image/webp, image/*;q=0.8\r\n", "image/jpeg", ImageFormat::Jpeg),
        ("Accept: text/html, image/png\r\n", "image/png", ImageFormat::Png),
    ] {
        let answer = server.ask_with("POST", "/picture", accept, &jpeg);
        assert_eq!(
            (answer.code, answer.header("content-type")),
            (200, Some(mime)),
            "{accept}{}",
            answer.why()
        );
        let gray = image::load_from_memory_with_format(&answer.body, format).expect("a picture").into_luma8();
        assert_eq!(gray.dimensions(), (40, 24));
        assert!(gray.pixels().all(|Luma([value])| value.abs_diff(luma([200, 100, 50])) <= 4), "{accept}");
    }
}

/// Cameras write down which side is up, and not the picture turned.
#[test]
fn a_picture_is_turned_as_its_camera_says() {
    // One entry of EXIF: the orientation (0x112), a number of 16 bits, is 6, which is a quarter to the right.
    let exif = [b"II*\0\x08\0\0\0\x01\0", &b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"[..], b"\0\0\0\0"].concat();
    let picture = RgbImage::from_fn(48, 16, |x, _| Rgb([if x < 24 { 250 } else { 10 }; 3]));
    let mut file = Vec::new();
    let mut encoder = JpegEncoder::new(&mut file);
    encoder.set_exif_metadata(exif).expect("a JPEG may have it");
    encoder.encode_image(&picture).expect("it is written");
    let answer = Server::start().ask("POST", "/picture", &file);
    let gray =
        image::load_from_memory_with_format(&answer.body, ImageFormat::Jpeg).expect("a JPEG").into_luma8();
    assert_eq!(gray.dimensions(), (16, 48));
    assert!(gray[(8, 4)].0[0] > 200 && gray[(8, 44)].0[0] < 50, "the left has gone to the top");
}

#[test]
fn a_format_that_is_not_known_is_refused_with_those_that_are() {
    let server = Server::start();
    let png = file(RgbImage::new(2, 2), ImageFormat::Png);
    let known = "image/png or image/jpeg";
    for (more, body, code, what) in [
        ("Content-Type: image/gif\r\n", &png[..], 415, "image/gif"),
        ("", b"GIF89a", 415, "image/gif"),
        ("", b"hello", 415, "no picture"),
        ("", b"", 415, "no picture"),
        ("Accept: image/webp\r\n", &png, 406, "image/webp"),
    ] {
        let answer = server.ask_with("POST", "/picture", more, body);
        let why = answer.why();
        assert!(
            answer.code == code && why.contains(what) && why.contains(known),
            "{more}: {}: {why}",
            answer.code
        );
    }
}

#[test]
fn a_broken_picture_is_told_why() {
    let server = Server::start();
    let png = file(RgbImage::from_pixel(64, 64, Rgb([1, 2, 3])), ImageFormat::Png);
    for (more, body) in [
        ("", &png[..png.len() / 2]),
        ("Content-Type: image/png\r\n", b"hello"),
        ("Content-Type: image/jpeg; q=1\r\n", &png),
    ] {
        let answer = server.ask_with("POST", "/picture", more, body);
        let why = answer.why();
        assert!(
            answer.code == 400 && why.contains("this is no whole image/"),
            "{more}: {}: {why}",
            answer.code
        );
    }
    assert_eq!(server.ask("POST", "/picture", &png).code, 200);
}

/// A few kilobytes of file, and 25 million pixels.
#[test]
fn a_small_file_of_a_large_picture_is_refused() {
    let server = Server::start();
    let png = file(image::GrayImage::new(5000, 5000), ImageFormat::Png);
    assert!(png.len() < 1 << 20, "{} bytes", png.len());
    let answer = server.ask("POST", "/picture", &png);
    assert!(answer.code == 413 && answer.why().contains("5000 by 5000"), "{}: {}", answer.code, answer.why());
}
