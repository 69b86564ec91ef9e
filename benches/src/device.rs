//! `#[kernel]` on an OpenCL device, beside the same kernels by hand, both launched by this runtime: the device's own times.

mod best;
mod by_hand;
mod cublas;
mod guards;
pub(crate) mod ours;

use std::cell::RefCell;
use std::time::Instant;

use windlass::image::Kernel;
use windlass::prelude::*;
use windlass::{DeviceKind, KernelCall, NdRange};

use crate::table::{Table, alternate, median};
use guards::Bare;

/// How large the kernels' data is.
pub(crate) struct Sizes {
    pub(crate) line: usize,
    pub(crate) side: usize,
    pub(crate) product: usize,
    pub(crate) bodies: usize,
}

impl Sizes {
    /// Those for a CPU, or for a GPU.
    pub(crate) fn of(is_cpu: bool) -> Self {
        if is_cpu { CPU } else { GPU }
    }
}

const GPU: Sizes = Sizes { line: 1 << 26, side: 8192, product: 2048, bodies: 1 << 16 };
const CPU: Sizes = Sizes { line: 1 << 22, side: 2048, product: 512, bodies: 1 << 12 };

pub(crate) const GROUP: usize = 256;
pub(crate) const COLUMNS: usize = 1024;

/// One device, and how often it is asked.
struct Bench<'t> {
    queue: Queue,
    bare: RefCell<Bare>,
    table: &'t mut Table,
    times: usize,
}

/// All rows, on the device that a program would get.
pub(crate) fn rows(table: &mut Table, scale: usize) {
    // A device without a clock is timed by the host's.
    let profiled = Queue::builder().profiling().blocking_build();
    let queue = profiled.or_else(|_| Queue::builder().blocking_build()).expect("there is a device");
    let device = queue.device().to_string();
    println!("on {device}:");
    if !queue.device().info().formats.contains(&windlass::image::ImageFormat::OpenClC) {
        println!("it takes no OpenCL C, and what is by hand here is that");
        return;
    }
    let sizes = Sizes::of(queue.device().kind() == DeviceKind::Cpu);
    let mut bench = Bench { queue, bare: RefCell::default(), table, times: 10 * scale + 1 };
    bench.lines(&sizes);
    bench.fours(&sizes);
    bench.plane(&sizes);
    bench.groups(&sizes);
    bench.products(&sizes);
}

impl Bench<'_> {
    /// Nanoseconds that the device took for a group, or, where it has no clock, until its end was heard of.
    fn timed<F>(&self, group: F) -> f64
    where
        F: for<'g> FnOnce(&windlass::CommandGroup<'g>) -> windlass::Result<()>,
    {
        let begun = Instant::now();
        let event = self.queue.submit(group).expect("nothing to refuse");
        event.blocking_wait().expect("nothing fails");
        let heard = begun.elapsed();
        event.profile().map_or(heard, |profile| profile.duration()).as_nanos() as f64
    }

    fn row(&mut self, what: &str, ours: impl Fn(&Self) -> f64, by_hand: impl Fn(&Self) -> f64, budget: &str) {
        // The first launches build the kernels and make memory.
        for first in [&ours as &dyn Fn(&Self) -> f64, &by_hand] {
            first(self);
        }
        let (made, theirs) = alternate(self.times, || ours(self), || by_hand(self));
        self.table.speed(&format!("{what}, beside OpenCL C by hand"), made, theirs, budget);
        self.guards(what, &ours);
    }

    /// What a kernel's guards cost: it is launched with them and without.
    fn guards(&mut self, what: &str, ours: &impl Fn(&Self) -> f64) {
        let bare = |bench: &Self| {
            bench.bare.borrow_mut().is_wanted = true;
            let took = ours(bench);
            bench.bare.borrow_mut().is_wanted = false;
            took
        };
        bare(self);
        let (guarded, bare) = alternate(self.times, || ours(self), || bare(self));
        self.table.speed(&format!("{what}, beside itself without guards"), guarded, bare, "≥ 0.97x");
    }

    /// A call of a kernel as it is, or without its guards.
    fn form<'g>(&self, call: KernelCall<'g>) -> KernelCall<'g> {
        self.bare.borrow_mut().form(call)
    }

    /// Kernels over a line of elements.
    fn lines(&mut self, sizes: &Sizes) {
        let n = sizes.line;
        let over = NdRange { global: [n], local: [GROUP] };
        let [a, b, c] = [1.0_f32, 2.0, 0.0].map(|value| Buffer::from(vec![value; n]));
        let (saxpy, triad) = (by_hand::kernel("saxpy"), by_hand::kernel("triad"));
        self.row(
            &format!("`saxpy`, {n} elements"),
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&a), cg.read_write(&c));
                    cg.parallel_for(n, bench.form(ours::saxpy(3.0, x, y)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&a), cg.read_write(&c));
                    cg.parallel_for(over, KernelCall::new(&saxpy).value(3.0_f32).buffer(x).buffer(y))
                })
            },
            "≥ 1.05x",
        );
        self.row(
            &format!("`triad`, {n} elements"),
            |bench| {
                bench.timed(|cg| {
                    let (c, a, b) = (cg.overwrite(&c), cg.read(&a), cg.read(&b));
                    cg.parallel_for(n, bench.form(ours::triad(c, a, b)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (c, a, b) = (cg.overwrite(&c), cg.read(&a), cg.read(&b));
                    cg.parallel_for(over, KernelCall::new(&triad).buffer(c).buffer(a).buffer(b))
                })
            },
            "≥ 1.05x",
        );
        let (parts, total) = (Buffer::<f32>::new(4096), Buffer::from(vec![0.0_f32]));
        let groups = (self.queue.device().info().compute_units * 8).clamp(32, 4096);
        let by_parts = by_hand::kernel("parts");
        self.row(
            &format!("`sum`, {n} elements"),
            |bench| {
                bench.timed(|cg| {
                    let (x, total) = (cg.read(&a), cg.read_write(&total));
                    cg.parallel_for(n, bench.form(ours::sum(x, total)))
                })
            },
            |bench| {
                let pass = |from: &Buffer<f32>, to: &Buffer<f32>, groups: usize| {
                    bench.timed(|cg| {
                        let (x, sums) = (cg.read(from), cg.read_write(to));
                        let over = NdRange { global: [groups * GROUP], local: [GROUP] };
                        cg.parallel_for(over, KernelCall::new(&by_parts).buffer(x).buffer(sums))
                    })
                };
                pass(&a, &parts, groups) + pass(&parts, &total, 1)
            },
            "≥ 0.95x",
        );
    }

    /// The same by four elements at a time.
    fn fours(&mut self, sizes: &Sizes) {
        let n = sizes.line / 4;
        let over = NdRange { global: [n], local: [GROUP] };
        let [a, b, c] = [1.0_f32, 2.0, 0.0].map(|value| Buffer::from(vec![Vec4::splat(value); n]));
        let (saxpy, triad) = (by_hand::kernel("saxpy4"), by_hand::kernel("triad4"));
        self.row(
            &format!("`saxpy` by fours, {} elements", sizes.line),
            |bench| {
                bench.timed(|cg| {
                    cg.parallel_for(n, bench.form(best::saxpy(3.0, cg.read(&a), cg.read_write(&c))))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&a), cg.read_write(&c));
                    cg.parallel_for(over, KernelCall::new(&saxpy).value(3.0_f32).buffer(x).buffer(y))
                })
            },
            "≥ 0.95x",
        );
        self.row(
            &format!("`triad` by fours, {} elements", sizes.line),
            |bench| {
                bench.timed(|cg| {
                    cg.parallel_for(n, bench.form(best::triad(cg.overwrite(&c), cg.read(&a), cg.read(&b))))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (c, a, b) = (cg.overwrite(&c), cg.read(&a), cg.read(&b));
                    cg.parallel_for(over, KernelCall::new(&triad).buffer(c).buffer(a).buffer(b))
                })
            },
            "≥ 0.95x",
        );
    }

    fn plane(&mut self, sizes: &Sizes) {
        let side = sizes.side;
        let [from, to] = [1.0_f32, 0.0].map(|value| {
            Buffer::with_shape([side, side], vec![value; side * side]).expect("it has this shape")
        });
        let stencil = by_hand::kernel("stencil");
        let over = NdRange { global: [side, side], local: [4, 64] };
        self.row(
            &format!("5-point `stencil`, {side} x {side}"),
            |bench| {
                bench.timed(|cg| {
                    let (from, to) = (cg.read(&from), cg.read_write(&to));
                    cg.parallel_for([side, side], bench.form(ours::stencil(from, to)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (from, to) = (cg.read(&from), cg.read_write(&to));
                    cg.parallel_for(over, KernelCall::new(&stencil).buffer(from).buffer(to))
                })
            },
            "≥ 1.05x",
        );
    }

    /// Kernels whose groups work together.
    fn groups(&mut self, sizes: &Sizes) {
        let n = sizes.line / 4;
        let [x, y] = [1.0_f32, 0.0].map(|value| Buffer::from(vec![value; n]));
        let over = NdRange { global: [n / COLUMNS * GROUP], local: [GROUP] };
        let softmax = by_hand::kernel("softmax");
        let columns = COLUMNS as u32;
        self.row(
            &format!("row `softmax`, {} x {COLUMNS}", n / COLUMNS),
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&x), cg.overwrite(&y));
                    cg.parallel_for(over, bench.form(ours::softmax(columns, x, y)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&x), cg.overwrite(&y));
                    cg.parallel_for(over, KernelCall::new(&softmax).value(columns).buffer(x).buffer(y))
                })
            },
            "≥ 0.95x",
        );
        let numbers: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect();
        let (x, y, bins) = (Buffer::from(numbers), Buffer::<u32>::new(n), Buffer::from(vec![0_u32; 256]));
        let groups = self.queue.device().info().compute_units * 8;
        let few = NdRange { global: [groups * GROUP], local: [GROUP] };
        let histogram = by_hand::kernel("histogram");
        self.row(
            &format!("`histogram` of 256 bins, {n} elements"),
            |bench| {
                bench.timed(|cg| {
                    let (x, bins) = (cg.read(&x), cg.atomic(&bins));
                    cg.parallel_for(few, bench.form(ours::histogram(x, bins)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (x, bins) = (cg.read(&x), cg.read_write(&bins));
                    cg.parallel_for(few, KernelCall::new(&histogram).buffer(x).buffer(bins))
                })
            },
            "≥ 0.9x",
        );
        let over = NdRange { global: [n], local: [GROUP] };
        let scan = by_hand::kernel("scan");
        self.row(
            &format!("`scan` of groups of 256, {n} elements"),
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&x), cg.overwrite(&y));
                    cg.parallel_for(over, bench.form(ours::scan(x, y)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (x, y) = (cg.read(&x), cg.overwrite(&y));
                    cg.parallel_for(over, KernelCall::new(&scan).buffer(x).buffer(y))
                })
            },
            "≥ 0.9x",
        );
        let n = sizes.bodies;
        let place = |i: usize| Vec4::new((i % 97) as f32, (i % 89) as f32, (i % 83) as f32, 1.0);
        let (places, forces) =
            (Buffer::from((0..n).map(place).collect::<Vec<Vec4<f32>>>()), Buffer::<Vec4<f32>>::new(n));
        let over = NdRange { global: [n], local: [GROUP] };
        let nbody = by_hand::kernel("nbody");
        self.row(
            &format!("`nbody`, {n} bodies"),
            |bench| {
                bench.timed(|cg| {
                    let (places, forces) = (cg.read(&places), cg.overwrite(&forces));
                    cg.parallel_for(over, bench.form(ours::nbody(places, forces)))
                })
            },
            |bench| {
                bench.timed(|cg| {
                    let (places, forces) = (cg.read(&places), cg.overwrite(&forces));
                    cg.parallel_for(over, KernelCall::new(&nbody).buffer(places).buffer(forces))
                })
            },
            "≥ 0.95x",
        );
    }

    fn products(&mut self, sizes: &Sizes) {
        let n = sizes.product;
        let values = |by: usize| (0..n * n).map(|i| (i % by) as f32 - 3.0).collect::<Vec<f32>>();
        let (a, b) = (Buffer::from(values(7)), Buffer::from(values(11)));
        let (c, d) = (Buffer::<f32>::new(n * n), Buffer::<f32>::new(n * n));
        let by_hand = |bench: &Self, kernel: &Kernel, range: NdRange<2>| {
            bench.timed(|cg| {
                let (a, b, c) = (cg.read(&a), cg.read(&b), cg.overwrite(&d));
                let call = KernelCall::new(kernel).value(n as u32).buffer(a).buffer(b).buffer(c);
                cg.parallel_for(range, call)
            })
        };
        let (tiled, registers) = (by_hand::kernel("matmul"), by_hand::kernel("matmul_registers"));
        let over = NdRange { global: [n, n], local: [ours::TILE, ours::TILE] };
        self.row(
            &format!("`matmul` by tiles of 16 x 16, {n}"),
            |bench| {
                bench.timed(|cg| {
                    let (a, b, c) = (cg.read(&a), cg.read(&b), cg.overwrite(&c));
                    cg.parallel_for(over, bench.form(ours::matmul(n as u32, a, b, c)))
                })
            },
            |bench| by_hand(bench, &tiled, over),
            "≥ 0.95x",
        );
        let over = NdRange { global: [n / 4, n / 4], local: [ours::TILE, ours::TILE] };
        self.row(
            &format!("`matmul` with 4 x 4 an item, {n}"),
            |bench| {
                bench.timed(|cg| {
                    let (a, b, c) = (cg.read(&a), cg.read(&b), cg.overwrite(&c));
                    cg.parallel_for(over, bench.form(ours::matmul_registers(n as u32, a, b, c)))
                })
            },
            |bench| by_hand(bench, &registers, over),
            "≥ 0.95x",
        );
        let read = |of: &Buffer<f32>| of.host_read().blocking_wait().expect("nothing fails").to_vec();
        assert_eq!(read(&c), read(&d), "the same product");
        self.best_product(n, &values, read(&c));
    }

    /// The fastest product that is written in Windlass, beside NVIDIA's where that is installed.
    fn best_product(&mut self, n: usize, values: &impl Fn(usize) -> Vec<f32>, expected: Vec<f32>) {
        let fours = |by: usize| {
            let values = values(by);
            let four = |v: &[f32]| Vec4::new(v[0], v[1], v[2], v[3]);
            Buffer::from(values.chunks_exact(4).map(four).collect::<Vec<_>>())
        };
        let (a, b, c) = (fours(7), fours(11), Buffer::<Vec4<f32>>::new(n * n / 4));
        let over = [n, n].map(|n| n / best::SIDE * ours::TILE);
        let range = NdRange { global: over, local: [ours::TILE, ours::TILE] };
        let launch = |bench: &Self| {
            bench.timed(|cg| {
                let (a, b, c) = (cg.read(&a), cg.read(&b), cg.overwrite(&c));
                cg.parallel_for(range, bench.form(best::matmul(n as u32, a, b, c)))
            })
        };
        let ours = median((0..=self.times).map(|_| launch(self)).collect());
        // The access ends here, before the next launches want to write.
        let found: Vec<f32> = {
            let found = c.host_read().blocking_wait().expect("nothing fails");
            found.iter().flat_map(|v| [v.x, v.y, v.z, v.w]).collect()
        };
        // Whole numbers, whose products are exact in any order.
        assert_eq!(found, expected, "the same product");
        let rate = |ns: f64| format!("{:.1} TFLOP/s", 2.0 * (n as f64).powi(3) / ns / 1e3);
        let (theirs, ratio) = match cublas::product(n, self.times) {
            Some(theirs) => (rate(theirs), format!("{:.2}x", theirs / ours)),
            None => (String::new(), String::new()),
        };
        self.table.text(
            &format!("`matmul` with 8 x 8 an item by fours, {n}, beside cuBLAS"),
            rate(ours),
            theirs,
            ratio,
            "its share stated",
        );
        self.guards(&format!("`matmul` with 8 x 8 an item by fours, {n}"), &launch);
    }
}
