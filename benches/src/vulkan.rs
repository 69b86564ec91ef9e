//! `#[kernel]` through Vulkan, beside the same kernels in WGSL by hand on wgpu alone. Neither has clocks here: a measurement is of
//! many launches in a row, by the host's clock, as one group and as one submission.

pub(crate) mod raw;

use std::time::Instant;

use raw::{Launch, Raw};
use windlass::prelude::*;
use windlass::{DeviceKind, NdRange};

use crate::device::{COLUMNS, GROUP, Sizes, ours};
use crate::table::{Table, alternate};

/// Launches in a row.
const LAUNCHES: usize = 32;

struct Bench<'t> {
    queue: Queue,
    raw: Raw,
    table: &'t mut Table,
    times: usize,
    /// What a launch over one element takes, ours and by hand, which is not the kernel's.
    launch: (f64, f64),
}

/// All rows, on the device that a program would get.
pub(crate) fn rows(table: &mut Table, scale: usize) {
    let queue = Queue::builder().blocking_build().expect("there is a device");
    println!("on {}:", queue.device());
    let raw = match queue.device().backend().to_string() == "wgpu" {
        true => Raw::open(&queue.device().info().name),
        false => None,
    };
    let Some(raw) = raw else {
        println!("it is no device of wgpu: `WINDLASS_DEVICE=wgpu`");
        return;
    };
    let sizes = Sizes::of(queue.device().kind() == DeviceKind::Cpu);
    let mut bench = Bench { queue, raw, table, times: 2 * scale + 1, launch: (0.0, 0.0) };
    bench.launches();
    bench.lines(&sizes);
    bench.groups(&sizes);
    bench.products(&sizes);
}

/// Groups in rows, where they are more than a device takes along one dimension.
fn in_rows(groups: usize) -> [u32; 3] {
    let rows = groups.div_ceil(65_535);
    [groups.div_ceil(rows) as u32, rows as u32, 1]
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

impl Bench<'_> {
    /// Nanoseconds a launch, of many in one group.
    fn timed<F>(&self, launch: F) -> f64
    where
        F: for<'g> Fn(&windlass::CommandGroup<'g>) -> windlass::Result<()>,
    {
        let begun = Instant::now();
        let event = self.queue.submit(|cg| (0..LAUNCHES).try_for_each(|_| launch(cg)));
        event.expect("nothing to refuse").blocking_wait().expect("nothing fails");
        begun.elapsed().as_nanos() as f64 / LAUNCHES as f64
    }

    fn both<F>(&self, ours: F, by_hand: &[&Launch]) -> (f64, f64)
    where
        F: for<'g> Fn(&windlass::CommandGroup<'g>) -> windlass::Result<()>,
    {
        // The first launches build the kernels and make memory.
        self.timed(&ours);
        self.raw.timed(by_hand, LAUNCHES);
        alternate(self.times, || self.timed(&ours), || self.raw.timed(by_hand, LAUNCHES))
    }

    /// What launching takes by itself: that is no matter of a kernel's text.
    fn launches(&mut self) {
        let [x, y] = [(); 2].map(|()| self.raw.buffer(&bytes(&[1.0])));
        let [a, c] = [(); 2].map(|()| Buffer::from(vec![1.0_f32]));
        let saxpy = self.raw.launch("saxpy", 1, &[(0, &x), (2, &y)], [1, 1, 1]);
        let ours = |cg: &windlass::CommandGroup<'_>| {
            cg.parallel_for(1, ours::saxpy(3.0, cg.read(&a), cg.read_write(&c)))
        };
        self.launch = self.both(ours, &[&saxpy]);
        let (ours, theirs) = self.launch;
        self.table.cost(
            "a launch over one element, which is taken from what follows",
            ours,
            Some(theirs),
            "",
        );
    }

    fn row<F>(&mut self, what: &str, ours: F, by_hand: &[&Launch], budget: &str)
    where
        F: for<'g> Fn(&windlass::CommandGroup<'g>) -> windlass::Result<()>,
    {
        let (ours, theirs) = self.both(ours, by_hand);
        let (ours, theirs) = (ours - self.launch.0, theirs - self.launch.1 * by_hand.len() as f64);
        self.table.speed(&format!("{what}, beside WGSL by hand on wgpu"), ours, theirs, budget);
    }

    fn lines(&mut self, sizes: &Sizes) {
        let (n, side) = (sizes.line, sizes.side);
        let ones = bytes(&vec![1.0; n]);
        let [x, z, y] = [(); 3].map(|()| self.raw.buffer(&ones));
        let groups = in_rows(n.div_ceil(GROUP));
        let [a, b, c] = [(); 3].map(|()| Buffer::from(vec![1.0_f32; n]));
        let saxpy = self.raw.launch("saxpy", 1, &[(0, &x), (2, &y)], groups);
        self.row(
            &format!("`saxpy`, {n} elements"),
            |cg| cg.parallel_for(n, ours::saxpy(3.0, cg.read(&a), cg.read_write(&c))),
            &[&saxpy],
            "≥ 0.9x",
        );
        let triad = self.raw.launch("triad", 1, &[(0, &x), (1, &z), (2, &y)], groups);
        self.row(
            &format!("`triad`, {n} elements"),
            |cg| cg.parallel_for(n, ours::triad(cg.overwrite(&c), cg.read(&a), cg.read(&b))),
            &[&triad],
            "≥ 0.9x",
        );
        let few = self.queue.device().info().compute_units.max(16) * 8;
        let (to, last) = (self.raw.buffer(&bytes(&vec![0.0; few])), self.raw.buffer(&bytes(&[0.0])));
        let first = self.raw.launch("parts", 1, &[(0, &x), (2, &to)], [few as u32, 1, 1]);
        let second = self.raw.launch("parts", 1, &[(0, &to), (2, &last)], [1, 1, 1]);
        let total = Buffer::from(vec![0.0_f32]);
        self.row(
            &format!("`sum`, {n} elements"),
            |cg| cg.parallel_for(n, ours::sum(cg.read(&a), cg.read_write(&total))),
            &[&first, &second],
            "≥ 0.9x",
        );
        let [from, to] = [(); 2]
            .map(|()| Buffer::with_shape([side, side], vec![1.0; side * side]).expect("it has this shape"));
        let groups = [side.div_ceil(64) as u32, side.div_ceil(4) as u32, 1];
        let stencil = self.raw.launch("stencil", side, &[(0, &x), (2, &y)], groups);
        self.row(
            &format!("5-point `stencil`, {side} x {side}"),
            |cg| cg.parallel_for([side, side], ours::stencil(cg.read(&from), cg.read_write(&to))),
            &[&stencil],
            "≥ 0.9x",
        );
    }

    fn groups(&mut self, sizes: &Sizes) {
        let n = sizes.line / 4;
        let [x, y] = [(); 2].map(|()| self.raw.buffer(&bytes(&vec![1.0; n])));
        let [a, b] = [(); 2].map(|()| Buffer::from(vec![1.0_f32; n]));
        let softmax = self.raw.launch("softmax", 1, &[(0, &x), (2, &y)], [(n / COLUMNS) as u32, 1, 1]);
        let over = NdRange { global: [n / COLUMNS * GROUP], local: [GROUP] };
        self.row(
            &format!("row `softmax`, {} x {COLUMNS}", n / COLUMNS),
            |cg| cg.parallel_for(over, ours::softmax(COLUMNS as u32, cg.read(&a), cg.overwrite(&b))),
            &[&softmax],
            "≥ 0.9x",
        );
        let numbers: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect();
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let x = self.raw.buffer(&raw);
        let (a, b, bins) = (Buffer::from(numbers), Buffer::<u32>::new(n), Buffer::from(vec![0_u32; 256]));
        let few = self.queue.device().info().compute_units.max(16) * 8;
        let histogram = self.raw.launch("histogram", 1, &[(0, &x), (2, &y)], [few as u32, 1, 1]);
        let over = NdRange { global: [few * GROUP], local: [GROUP] };
        self.row(
            &format!("`histogram` of 256 bins, {n} elements"),
            |cg| cg.parallel_for(over, ours::histogram(cg.read(&a), cg.atomic(&bins))),
            &[&histogram],
            "≥ 0.9x",
        );
        let scan = self.raw.launch("scan", 1, &[(0, &x), (2, &y)], in_rows(n / GROUP));
        let over = NdRange { global: [n], local: [GROUP] };
        self.row(
            &format!("`scan` of groups of 256, {n} elements"),
            |cg| cg.parallel_for(over, ours::scan(cg.read(&a), cg.overwrite(&b))),
            &[&scan],
            "≥ 0.9x",
        );
        let n = sizes.bodies;
        let (places, forces) = (Buffer::from(vec![Vec4::splat(1.0_f32); n]), Buffer::<Vec4<f32>>::new(n));
        let [x, y] = [(); 2].map(|()| self.raw.buffer(&bytes(&vec![1.0; 4 * n])));
        let nbody = self.raw.launch("nbody", 1, &[(0, &x), (2, &y)], [(n / GROUP) as u32, 1, 1]);
        let over = NdRange { global: [n], local: [GROUP] };
        self.row(
            &format!("`nbody`, {n} bodies"),
            |cg| cg.parallel_for(over, ours::nbody(cg.read(&places), cg.overwrite(&forces))),
            &[&nbody],
            "≥ 0.9x",
        );
    }

    fn products(&mut self, sizes: &Sizes) {
        let (n, tile) = (sizes.product, ours::TILE);
        let ones = vec![1.0_f32; n * n];
        let [x, z, y] = [(); 3].map(|()| self.raw.buffer(&bytes(&ones)));
        let [a, b, c] = [(); 3].map(|()| Buffer::from(ones.clone()));
        let groups = |each: usize| [(n / each) as u32, (n / each) as u32, 1];
        let buffers = [(0, &x), (1, &z), (2, &y)];
        let matmul = self.raw.launch("matmul", n, &buffers, groups(tile));
        let over = NdRange { global: [n, n], local: [tile, tile] };
        self.row(
            &format!("`matmul` by tiles of 16 x 16, {n}"),
            |cg| cg.parallel_for(over, ours::matmul(n as u32, cg.read(&a), cg.read(&b), cg.overwrite(&c))),
            &[&matmul],
            "≥ 0.9x",
        );
        let registers = self.raw.launch("matmul_registers", n, &buffers, groups(4 * tile));
        let over = NdRange { global: [n / 4, n / 4], local: [tile, tile] };
        self.row(
            &format!("`matmul` with 4 x 4 an item, {n}"),
            |cg| {
                let (a, b, c) = (cg.read(&a), cg.read(&b), cg.overwrite(&c));
                cg.parallel_for(over, ours::matmul_registers(n as u32, a, b, c))
            },
            &[&registers],
            "≥ 0.9x",
        );
    }
}
