//! What Rust has and kernels have not.
#[windlass::kernel]
fn closure(out: &mut [u32]) {
    let f = |x| x + 1;
    out[0] = 1;
}

#[windlass::kernel]
fn macros(out: &mut [u32]) {
    println!("{}", out[0]);
    out[0] = 1;
}

#[windlass::kernel]
fn iterator(x: &[u32], out: &mut [u32]) {
    for v in x.iter() {
        out[0] += 1;
    }
}

#[windlass::kernel]
fn labels(out: &mut [u32]) {
    'outer: loop {
        break 'outer;
    }
    out[0] = 1;
}

#[windlass::kernel]
fn tuple(out: &mut [u32]) {
    let p = (1, 2);
    out[0] = 1;
}

#[windlass::kernel]
fn option(out: &mut [u32]) {
    if let Some(x) = 1 {
        out[0] = 1;
    }
}

#[windlass::kernel]
fn guard(x: &[u32], out: &mut [u32]) {
    match x[0] {
        1 if x[1] > 0 => out[0] = 1,
        _ => out[0] = 2,
    }
}

#[windlass::kernel]
fn not_all(x: &[u32], out: &mut [u32]) {
    match x[0] {
        1 => out[0] = 1,
        2 => out[0] = 2,
    }
}

#[windlass::kernel]
fn on_floats(x: &[f32], out: &mut [u32]) {
    match x[0] {
        _ => out[0] = 2,
    }
}

#[windlass::kernel]
fn item(out: &mut [u32]) {
    fn helper() {}
    out[0] = 1;
}

#[windlass::kernel]
fn jump(out: &mut [u32]) {
    break;
    out[0] = 1;
}

#[windlass::kernel]
fn waiting(out: &mut [u32]) {
    out[0] = out[1].await;
}

#[windlass::kernel]
fn failing(out: &mut [u32]) {
    out[0] = out[1]?;
}

#[windlass::kernel]
fn value_of_a_loop(out: &mut [u32]) {
    loop {
        break 5;
    }
    out[0] = 1;
}

#[windlass::kernel]
fn no_step(n: u32, out: &mut [u32]) {
    for i in (0..4).step_by(0) {
        out[i] = 1;
    }
    for i in (0..4).step_by(n) {
        out[i] = 1;
    }
    for i in (0..).rev() {
        out[i] = 1;
    }
}

#[windlass::kernel]
fn ranges_in_patterns(x: &[u32], out: &mut [u32]) {
    out[0] = match x[0] {
        5..5 => 1,
        7.. => 2,
        0..=1024 => 3,
        3..=4 => 4,
        4 => 5,
        0..9 => 6,
        1..9 => 7,
        _ => 0,
    };
}

#[windlass::kernel]
fn over(x: &[u32], n: u32, out: &mut [u32]) {
    for v in x {
        out[0] += v;
    }
    for v in n {
        out[0] += v;
    }
    for v in [1, 2].windows(2) {
        out[0] += v;
    }
    'outer: for i in 0..3 {
        continue 'inner;
    }
    let (sine, cosine) = n.sin_cos();
    out[1] = 1.5_f32.pow(2) as u32 + n.hypot(1) + n.saturating_add();
}

fn main() {}
