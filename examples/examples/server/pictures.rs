//! Pictures lose their colours: as pixels, as a stream of pixels, or as files.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, RgbaImage};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use windlass::prelude::*;
use windlass::stream::Pipe;

use super::App;
use super::refusal::{Refusal, Whole};

#[windlass::kernel]
fn grayscale(rgba: &[u32], gray: &mut [u32]) {
    let i = global_id(0);
    if i < gray.len() {
        let p = rgba[i];
        let r = (p & 0xff) as f32;
        let g = ((p >> 8) & 0xff) as f32;
        let b = ((p >> 16) & 0xff) as f32;
        let luma = (0.2126 * r + 0.7152 * g + 0.0722 * b) as u32;
        gray[i] = luma | (luma << 8) | (luma << 16) | (p & 0xff000000);
    }
}

pub(crate) fn pipe(queue: &Queue) -> Pipe<u32, u32> {
    Pipe::builder(queue).build(|cg, part| {
        cg.parallel_for(part.output().len(), grayscale(cg.read(part.input()), cg.overwrite(part.output())))
    })
}

/// `POST /grayscale`: RGBA bytes.
pub(crate) async fn pixels(State(app): State<App>, Whole(body): Whole) -> Result<Bytes, Refusal> {
    without_colours(&app, body).await
}

/// `POST /grayscale/stream`: as many as there are. The first rows are on their way back while the last are on their way here, and little
/// is in memory.
pub(crate) async fn stream(State(app): State<App>, body: Body) -> Body {
    Body::from_stream(app.gray.run(body.into_data_stream()))
}

/// `POST /picture`: a file, answered in the format in which it came unless `Accept` asks for the other one.
pub(crate) async fn file(
    State(app): State<App>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<impl IntoResponse, Refusal> {
    let sent = format_sent(&headers, &body)?;
    let wanted = format_wanted(&headers, sent)?;
    let place = place(&app).await?;
    let picture = aside(&place, move || decoded(&body, sent)).await?;
    let size = picture.dimensions();
    let gray = without_colours(&app, picture.into_raw().into()).await?;
    let answer = aside(&place, move || encoded(size, gray, wanted)).await?;
    Ok(([(header::CONTENT_TYPE, wanted.to_mime_type())], answer))
}

/// A picture is work enough for a launch of its own.
async fn without_colours(app: &App, rgba: Bytes) -> Result<Bytes, Refusal> {
    let rgba = Buffer::<u32>::from_bytes(rgba)?;
    let gray = Buffer::<u32>::new(rgba.len());
    let answer = async move {
        // When its client goes or its time is up, this future is dropped, and the work with it.
        let group = app
            .queue
            .ready()
            .await
            .submit(|cg| cg.parallel_for(gray.len(), grayscale(cg.read(&rgba), cg.overwrite(&gray))))?;
        group.cancel_on_drop().await?;
        gray.into_bytes().await
    };
    Ok(timeout(app.settings.patience, answer).await.map_err(windlass::Error::from)??)
}

const FORMATS: [ImageFormat; 2] = [ImageFormat::Png, ImageFormat::Jpeg];

/// What `Content-Type` says, if it says that it is a picture; else what the first bytes say.
fn format_sent(headers: &HeaderMap, body: &[u8]) -> Result<ImageFormat, Refusal> {
    let said = text(headers, header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    let (format, what) = match said.starts_with("image/") {
        true => (ImageFormat::from_mime_type(said), said),
        false => {
            let found = image::guess_format(body).ok();
            (found, found.map_or("what begins like no picture", |format| format.to_mime_type()))
        }
    };
    format.filter(|format| FORMATS.contains(format)).ok_or_else(|| {
        let why = format!("{what} cannot be read here: send image/png or image/jpeg");
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)
    })
}

/// The first that `Accept` names and that there is.
fn format_wanted(headers: &HeaderMap, sent: ImageFormat) -> Result<ImageFormat, Refusal> {
    let accept = text(headers, header::ACCEPT);
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    let format = kinds.find_map(|kind| match kind {
        "" | "*/*" | "image/*" => Some(sent),
        kind => FORMATS.into_iter().find(|format| format.to_mime_type() == kind),
    });
    format.ok_or_else(|| {
        let why = format!("{accept} cannot be written here: accept image/png or image/jpeg");
        Refusal::new(StatusCode::NOT_ACCEPTABLE, why)
    })
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Small files may be large pictures, so only so many are in memory at a time.
async fn place(app: &App) -> Result<Arc<OwnedSemaphorePermit>, Refusal> {
    let place = timeout(app.settings.patience, app.pictures.clone().acquire_owned()).await;
    let busy = |_| Refusal::busy("as many pictures are being read as may", Duration::from_secs(1));
    Ok(Arc::new(place.map_err(busy)?.expect("nobody closes it")))
}

/// Runs what keeps a processor for long on a thread that has nothing else to do. It has its place to the end, even where its client has gone.
async fn aside<T: Send + 'static>(
    place: &Arc<OwnedSemaphorePermit>,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let place = place.clone();
    let work = spawn_blocking(move || {
        let _place = place;
        work()
    });
    work.await.unwrap_or_else(|panic| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, panic)))
}

const MOST_PIXELS: u64 = 16 << 20;

fn decoded(file: &[u8], format: ImageFormat) -> Result<RgbaImage, Refusal> {
    let broken = |error: ImageError| {
        let code = match error {
            ImageError::Limits(_) => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        Refusal::new(code, format!("this is no whole {}: {error}", format.to_mime_type()))
    };
    let mut decoder = ImageReader::with_format(Cursor::new(file), format).into_decoder().map_err(broken)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        let why = format!("a picture of {width} by {height}: send one of {MOST_PIXELS} pixels at most");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    // Cameras say which side is up.
    let orientation = decoder.orientation().map_err(broken)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    picture.apply_orientation(orientation);
    Ok(picture.into_rgba8())
}

fn encoded((width, height): (u32, u32), rgba: Bytes, format: ImageFormat) -> Result<Vec<u8>, Refusal> {
    let picture = RgbaImage::from_raw(width, height, rgba.into()).expect("four bytes for each pixel");
    let picture = DynamicImage::from(picture);
    let gray: DynamicImage = match format {
        ImageFormat::Jpeg => picture.into_luma8().into(),
        _ => picture.into_luma_alpha8().into(),
    };
    let mut file = Cursor::new(Vec::new());
    let failed = |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error);
    gray.write_to(&mut file, format).map_err(failed)?;
    Ok(file.into_inner())
}
