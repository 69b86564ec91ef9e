//! How heat flows over a plate that is heated at one place, cooled at another, and has walls that keep it out.

use windlass::prelude::*;

use crate::Report;

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
const STEPS: usize = 2000;
/// How much of the difference to its four neighbours a place takes on in a step; more than a quarter would swing.
const FLOW: f32 = 0.24;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    pub const PLATE: u32 = 0;
    pub const HOT: u32 = 1;
    pub const COLD: u32 = 2;
    pub const WALL: u32 = 3;

    /// How much warmer a neighbour is. Through walls and the plate's border no heat flows; what is outside is no wall, so
    /// that has to be asked.
    fn warmer(heat: &View<f32, 2>, what: &View<u32, 2>, row: i32, column: i32, here: f32) -> f32 {
        let is_outside =
            row < 0 || column < 0 || row >= heat.extent(0) as i32 || column >= heat.extent(1) as i32;
        if is_outside || what[row][column] == WALL { 0.0 } else { heat[row][column] - here }
    }

    #[kernel]
    pub fn step(flow: f32, what: &View<u32, 2>, from: &View<f32, 2>, to: &mut View<f32, 2>) {
        let (row, column) = (global_id(0) as i32, global_id(1) as i32);
        to[row][column] = match what[row][column] {
            HOT => 1.0,
            COLD | WALL => 0.0,
            _ => {
                let here = from[row][column];
                let along =
                    warmer(from, what, row, column - 1, here) + warmer(from, what, row, column + 1, here);
                let down =
                    warmer(from, what, row - 1, column, here) + warmer(from, what, row + 1, column, here);
                here + flow * (along + down)
            }
        };
    }
}

/// The plate: something hot to the left, something cold to the right, and two walls between with a gap in each.
fn plate() -> Vec<u32> {
    let what = |at: usize| match (at / WIDTH, at % WIDTH) {
        (20..44, 4..8) => kernels::HOT,
        (28..36, 86..90) => kernels::COLD,
        (0..46, 32..34) => kernels::WALL,
        (18.., 60..62) => kernels::WALL,
        _ => kernels::PLATE,
    };
    (0..WIDTH * HEIGHT).map(what).collect()
}

fn plain(what: &[u32]) -> Vec<f32> {
    let mut heat = vec![0.0_f32; what.len()];
    for _ in 0..STEPS {
        let next = |at: usize| {
            let (row, column) = (at / WIDTH, at % WIDTH);
            let neighbours = [
                (row > 0).then(|| at - WIDTH),
                (row + 1 < HEIGHT).then(|| at + WIDTH),
                (column > 0).then(|| at - 1),
                (column + 1 < WIDTH).then(|| at + 1),
            ];
            let open = neighbours.into_iter().flatten().filter(|to| what[*to] != kernels::WALL);
            match what[at] {
                kernels::HOT => 1.0,
                kernels::COLD | kernels::WALL => 0.0,
                _ => heat[at] + FLOW * open.map(|to| heat[to] - heat[at]).sum::<f32>(),
            }
        };
        heat = (0..what.len()).map(next).collect();
    }
    heat
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let shape = [HEIGHT, WIDTH];
    let plate = plate();
    let what = Buffer::with_shape(shape, plate.clone())?;
    let (mut from, mut to) = (Buffer::<f32, 2>::new(shape), Buffer::new(shape));
    for _ in 0..STEPS {
        queue.submit(|cg| {
            let call = kernels::step(FLOW, cg.read(&what), cg.read(&from), cg.overwrite(&to));
            cg.parallel_for(shape, call)
        })?;
        std::mem::swap(&mut from, &mut to);
    }
    let found = from.host_read().blocking_wait()?.to_vec();
    // The root shows more of what is nearly cold.
    let shades: Vec<f32> = found.iter().map(|heat| heat.sqrt()).collect();
    Ok(Report::picture(&shades, WIDTH).near("heat", &found, &plain(&plate), 1e-4))
}
