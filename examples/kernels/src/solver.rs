//! The potential of charges in a box whose walls are grounded: a sparse system of linear equations, solved by conjugate
//! gradients. Nothing but the residuals that are shown comes back to the host before the end.

use windlass::prelude::*;

use crate::Report;

const SIDE: usize = 64;
const STEPS: usize = 120;
/// Each so many steps there is a line of the table.
const EVERY: usize = 20;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// A row of the matrix times a vector. Outside is zero, which is just what the walls have.
    fn laplacian(x: &View<f32, 2>, row: u32, column: u32) -> f32 {
        let around = x[row - 1][column] + x[row + 1][column] + x[row][column - 1] + x[row][column + 1];
        4.0 * x[row][column] - around
    }

    fn add_scaled(to: &mut f32, by: f32, x: f32) {
        *to += by * x;
    }

    /// The matrix times the direction.
    #[kernel]
    pub fn apply(p: &View<f32, 2>, ap: &mut View<f32, 2>, #[reduce(sum)] p_ap: &mut f32) {
        let (row, column) = (global_id(0), global_id(1));
        let value = laplacian(p, row, column);
        ap[row][column] = value;
        *p_ap += p[row][column] * value;
    }

    /// Goes as far in the direction as is best.
    #[kernel]
    pub fn step(
        rr: &[f32],
        p_ap: &[f32],
        p: &View<f32, 2>,
        ap: &View<f32, 2>,
        x: &mut View<f32, 2>,
        r: &mut View<f32, 2>,
        #[reduce(sum)] new_rr: &mut f32,
    ) {
        let (row, column) = (global_id(0), global_id(1));
        let far = rr[0] / p_ap[0];
        add_scaled(&mut x[row][column], far, p[row][column]);
        add_scaled(&mut r[row][column], -far, ap[row][column]);
        *new_rr += r[row][column] * r[row][column];
    }

    /// The next direction is across all those before.
    #[kernel]
    pub fn turn(rr: &[f32], new_rr: &[f32], r: &View<f32, 2>, p: &mut View<f32, 2>) {
        let (row, column) = (global_id(0), global_id(1));
        p[row][column] = r[row][column] + new_rr[0] / rr[0] * p[row][column];
    }
}

/// Some charges, of both signs.
fn charges() -> Vec<f32> {
    let mut charges = vec![0.0; SIDE * SIDE];
    for (row, column, charge) in [(10, 12, 1.0), (20, 50, -2.0), (45, 20, 1.5), (50, 51, 1.0), (33, 33, -0.5)]
    {
        charges[row * SIDE + column] = charge;
    }
    charges
}

/// The charges that a potential belongs to.
fn laplacian(x: &[f64]) -> Vec<f64> {
    let at = |row: usize, column: usize| {
        if row < SIDE && column < SIDE { x[row * SIDE + column] } else { 0.0 }
    };
    let value = |i: usize| {
        let (row, column) = (i / SIDE, i % SIDE);
        let (up, left) = (row.wrapping_sub(1), column.wrapping_sub(1));
        4.0 * x[i] - at(up, column) - at(row + 1, column) - at(row, left) - at(row, column + 1)
    };
    (0..x.len()).map(value).collect()
}

/// The same method in double precision, until it has the solution.
fn plain(b: &[f32]) -> Vec<f32> {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let add = |x: &[f64], by: f64, y: &[f64]| x.iter().zip(y).map(|(x, y)| x + by * y).collect::<Vec<f64>>();
    let mut r: Vec<f64> = b.iter().map(|x| f64::from(*x)).collect();
    let (mut x, mut p, mut rr) = (vec![0.0; r.len()], r.clone(), dot(&r, &r));
    while rr > 1e-16 {
        let ap = laplacian(&p);
        let far = rr / dot(&p, &ap);
        (x, r) = (add(&x, far, &p), add(&r, -far, &ap));
        let new_rr = dot(&r, &r);
        p = add(&r, new_rr / rr, &p);
        rr = new_rr;
    }
    x.into_iter().map(|x| x as f32).collect()
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let (shape, b) = ([SIDE, SIDE], charges());
    let x = Buffer::<f32, 2>::new(shape);
    let (r, p) = (Buffer::with_shape(shape, b.clone())?, Buffer::with_shape(shape, b.clone())?);
    let ap = Buffer::<f32, 2>::new(shape);
    let mut rr = Buffer::from(vec![b.iter().map(|b| b * b).sum::<f32>()]);
    let mut residuals = vec![rr.host_read().blocking_wait()?[0].sqrt()];
    for step in 1..=STEPS {
        // A reduction adds to what is there, so each step has its own.
        let (p_ap, new_rr) = (Buffer::<f32>::new(1), Buffer::<f32>::new(1));
        queue.submit(|cg| {
            let call = kernels::apply(cg.read(&p), cg.overwrite(&ap), cg.read_write(&p_ap));
            cg.parallel_for(shape, call)
        })?;
        queue.submit(|cg| {
            let (rr, p_ap, p, ap) = (cg.read(&rr), cg.read(&p_ap), cg.read(&p), cg.read(&ap));
            let (x, r, new_rr) = (cg.read_write(&x), cg.read_write(&r), cg.read_write(&new_rr));
            cg.parallel_for(shape, kernels::step(rr, p_ap, p, ap, x, r, new_rr))
        })?;
        queue.submit(|cg| {
            let (rr, new_rr) = (cg.read(&rr), cg.read(&new_rr));
            cg.parallel_for(shape, kernels::turn(rr, new_rr, cg.read(&r), cg.read_write(&p)))
        })?;
        rr = new_rr;
        if step % EVERY == 0 {
            residuals.push(rr.host_read().blocking_wait()?[0].sqrt());
        }
    }
    let found = x.host_read().blocking_wait()?.to_vec();
    let rows =
        residuals.iter().enumerate().map(|(line, left)| [(line * EVERY).to_string(), format!("{left:.1e}")]);
    let mut report = Report::table(["step", "residual"], rows).near("potential", &found, &plain(&b), 1e-3);
    if residuals[residuals.len() - 1] > 1e-3 {
        report.wrong.push(format!("the residuals are {residuals:?}"));
    }
    Ok(report)
}
