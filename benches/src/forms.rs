//! `saxpy` with its index written in several ways, on one thread, beside the loop that each of them means.

use std::cell::RefCell;
use std::hint::black_box;

use crate::kernels::{LEN, row};
use crate::table::Table;

const ROWS: usize = 64;
const COLUMNS: usize = LEN / ROWS;

#[windlass::kernel]
fn rows_and_columns(a: f32, n: u32, x: &[f32], y: &mut [f32]) {
    let row = global_id(0);
    let column = global_id(1);
    y[row * n + column] = a * x[row * n + column] + y[row * n + column];
}

#[windlass::kernel]
fn by_strides(a: f32, x: &[f32], y: &mut [f32]) {
    let mut i = global_id(0);
    while i < y.len() {
        y[i] = a * x[i] + y[i];
        i += global_size(0);
    }
}

#[windlass::kernel]
fn one_further(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0) + 1;
    y[i] = a * x[i] + y[i];
}

#[windlass::kernel]
fn four_an_item(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0) * 4;
    for k in 0..4 {
        y[i + k] = a * x[i + k] + y[i + k];
    }
}

#[windlass::kernel]
fn every_second(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0) * 2;
    y[i] = a * x[i] + y[i];
}

/// By hand: `y` and what it is made of.
fn add(y: &mut [f32], x: &[f32]) {
    for (y, x) in black_box(y).iter_mut().zip(x) {
        *y += 3.0 * x;
    }
}

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let x = vec![1.5_f32; LEN];
    let y = RefCell::new(vec![0.0_f32; LEN]);
    type Ours<'a> = &'a dyn Fn(&[f32], &mut [f32]) -> windlass::Result<()>;
    let mut form = |what: &str, ours: Ours<'_>, theirs: &dyn Fn(&mut [f32])| {
        let what = format!("kernel `saxpy`, {what}");
        let ours = || ours(&x, &mut y.borrow_mut());
        row(table, scale, (&what, "≥ 0.9x"), ours, || theirs(&mut y.borrow_mut()));
    };
    let columns = COLUMNS as u32;
    let in_rows = |y: &mut [f32]| y.chunks_mut(COLUMNS).zip(x.chunks(COLUMNS)).for_each(|(y, x)| add(y, x));
    let rows = &|x: &[f32], y: &mut [f32]| rows_and_columns(3.0, columns, x, y).run_here([ROWS, COLUMNS]);
    form("`y[row * n + column]`", rows, &in_rows);
    form("by strides of the launch's size", &|x, y| by_strides(3.0, x, y).run_here(4096), &|y| add(y, &x));
    form("`y[i + 1]`", &|x, y| one_further(3.0, x, y).run_here(LEN), &|y| add(&mut y[1..], &x[1..]));
    form("four elements an item", &|x, y| four_an_item(3.0, x, y).run_here(LEN / 4), &|y| add(y, &x));
    form("`y[2 * i]`", &|x, y| every_second(3.0, x, y).run_here(LEN / 2), &|y| {
        for (y, x) in black_box(y).iter_mut().zip(&x).step_by(2) {
            *y += 3.0 * x;
        }
    });
}
