//! Pointers: as arguments, in structs and in memory. What they lead to is reached where the launch names it, and nowhere else.

use windlass::image::Kernel;
use windlass::prelude::*;
use windlass::{KernelCall, MemoryKind, NdRange};

use crate::everywhere::{queues, read, where_there_is};

/// Runs a test on every device whose kernels have addresses.
fn with_addresses(run: impl FnMut(&Queue) -> windlass::Result<()>) {
    where_there_is("memory with addresses", |queue| queue.device().has(Aspect::Pointers), run);
}

fn shared<T: DeviceCopy>(queue: &Queue, elements: Vec<T>) -> windlass::Result<Buffer<T>> {
    queue.blocking_import(MemoryKind::Shared, elements)
}

fn pointer<T: DeviceCopy>(to: &Buffer<T>) -> Ptr<T> {
    to.pointer().expect("shared memory has addresses")
}

#[windlass::kernels]
mod following {
    use windlass::prelude::*;

    /// What one launch works on.
    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Job {
        pub from: Ptr<f32>,
        pub to: Ptr<f32>,
        pub by: f32,
        pub len: u32,
    }

    #[kernel]
    pub fn scale(job: Job) {
        let i = global_id(0);
        if i < job.len {
            job.to[i] = job.by * job.from[i];
        }
    }

    /// Each with memory of its own.
    #[kernel]
    pub fn totals(jobs: &[Job], sums: &mut [f32]) {
        let job = jobs[global_id(0)];
        let mut sum = 0.0;
        for k in 0..job.len {
            sum += job.from[k];
        }
        sums[global_id(0)] = sum;
        *job.to = sum;
    }

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Node {
        pub next: Ptr<Node>,
        pub value: u64,
    }

    fn sum_of(first: Ptr<Node>, most: u32) -> u64 {
        let mut node = first;
        let mut sum = 0;
        for _ in 0..most {
            if node.is_null() {
                break;
            }
            let Node { next, value } = node.read();
            sum += value;
            node = next;
        }
        sum
    }

    #[kernel]
    pub fn walk(first: Ptr<Node>, most: u32, sums: &mut [u64]) {
        sums[global_id(0)] = sum_of(first, most);
    }

    /// Turns a list around, in place.
    #[kernel]
    pub fn turn(first: Ptr<Node>, last: &mut [Node]) {
        let mut before = Ptr::<Node>::null();
        let mut node = first;
        while node != Ptr::<Node>::null() {
            let next = node[0].next;
            node[0].next = before;
            (before, node) = (node, next);
        }
        last[0].next = before;
        last[0].value = before.address() - first.address();
    }
}

/// The kernel is right if a struct's two pointers lead to where they were taken from.
#[test]
fn a_struct_has_pointers_to_two_buffers() {
    with_addresses(|queue| {
        let (from, to) = (shared(queue, vec![1.0, 2.0, 3.0])?, shared(queue, vec![0.0_f32; 4])?);
        let job = following::Job { from: pointer(&from), to: pointer(&to), by: 10.0, len: 3 };
        queue.submit(|cg| {
            let call = following::scale(job).reaching(cg.read(&from)).reaching(cg.read_write(&to));
            cg.parallel_for(4, call)
        })?;
        assert_eq!(read(&to)?, [10.0, 20.0, 30.0, 0.0]);
        Ok(())
    });
}

#[test]
fn structs_in_memory_have_pointers() {
    with_addresses(|queue| {
        let rows: Vec<Buffer<f32>> = (1..=6)
            .map(|len| shared(queue, (0..len).map(|i| i as f32 + 0.5).collect()))
            .collect::<windlass::Result<_>>()?;
        let results = shared(queue, vec![0.0_f32; 6])?;
        let jobs = rows.iter().enumerate().map(|(at, row)| following::Job {
            from: pointer(row),
            to: pointer(&results).add(5 - at),
            by: 0.0,
            len: row.len() as u32,
        });
        let (jobs, sums) = (Buffer::from(jobs.collect::<Vec<_>>()), Buffer::<f32>::new(6));
        queue.submit(|cg| {
            let call =
                following::totals(cg.read(&jobs), cg.overwrite(&sums)).reaching(cg.read_write(&results));
            cg.parallel_for(6, rows.iter().fold(call, |call, row| call.reaching(cg.read(row))))
        })?;
        let mut expected = [0.5, 2.0, 4.5, 8.0, 12.5, 18.0];
        assert_eq!(read(&sums)?, expected);
        expected.reverse();
        assert_eq!(read(&results)?, expected);
        Ok(())
    });
}

/// A list in one buffer, in an order of its own.
fn list(queue: &Queue, values: &[u64]) -> windlass::Result<(Buffer<following::Node>, Ptr<following::Node>)> {
    let empty = following::Node { next: Ptr::null(), value: 0 };
    let nodes = shared(queue, vec![empty; values.len()])?;
    let start = pointer(&nodes);
    let place = |at: usize| (at * 5 + 2) % values.len();
    let mut all = nodes.host_write().blocking_wait()?;
    for (at, value) in values.iter().enumerate() {
        let next = if at + 1 < values.len() { start.add(place(at + 1)) } else { Ptr::null() };
        all[place(at)] = following::Node { next, value: *value };
    }
    drop(all);
    Ok((nodes, start.add(place(0))))
}

#[test]
fn lists_are_walked_and_turned() {
    with_addresses(|queue| {
        let (nodes, first) = list(queue, &[1, 20, 300, 4000, 50000, 600000, 7000000])?;
        let sums = Buffer::<u64>::new(2);
        let walk = |first: Ptr<following::Node>, most: u32| {
            queue.submit(|cg| {
                let call = following::walk(first, most, cg.overwrite(&sums));
                cg.parallel_for(2, call.reaching(cg.read(&nodes)))
            })?;
            Ok::<_, windlass::Error>(read(&sums)?[1])
        };
        assert_eq!((walk(first, 100)?, walk(first, 3)?, walk(Ptr::null(), 9)?), (7654321, 321, 0));
        let last = Buffer::from(vec![following::Node { next: Ptr::null(), value: 0 }]);
        queue.submit(|cg| {
            let call = following::turn(first, cg.read_write(&last)).reaching(cg.read_write(&nodes));
            cg.parallel_for(1, call)
        })?;
        let last = read(&last)?[0];
        assert_eq!(last.value, last.next.address().wrapping_sub(first.address()));
        assert_eq!((walk(last.next, 100)?, walk(last.next, 2)?, walk(first, 9)?), (7654321, 7600000, 1));
        Ok(())
    });
}

#[windlass::kernel]
fn look(at: &[u64], out: &mut [u64]) {
    let i = global_id(0);
    out[i] = Ptr::<u64>::from_address(at[i]).read();
}

#[windlass::kernel]
fn put(at: &[u64]) {
    let to = Ptr::<u32>::from_address(at[global_id(0)]);
    to.write(to.read() + 1);
}

/// Every address near memory of which parts are named: only whole elements of these parts are read and written. The model is the three
/// lines that say which ones are inside.
#[test]
fn only_what_the_launch_names_is_reached() {
    with_addresses(|queue| {
        let wide = shared(queue, (0..32_u64).map(|i| i + 1000).collect())?;
        let (first, end) = (pointer(&wide).address(), pointer(&wide).add(32).address());
        let mut all: Vec<u64> = (first - 24..end + 24).collect();
        all.extend([0, 1, 8, u64::MAX, u64::MAX - 7, 1 << 63, first ^ 1 << 40]);
        let (at, out) = (Buffer::from(all.clone()), Buffer::<u64>::new(all.len()));
        for (start, stop) in [(0, 32), (3, 9), (31, 32), (8, 8)] {
            queue.submit(|cg| {
                let call = look(cg.read(&at), cg.overwrite(&out));
                cg.parallel_for(all.len(), call.reaching(cg.read(&wide.range(start..stop))))
            })?;
            let expected = all.iter().map(|at| {
                let inside = (first + 8 * start as u64..first + 8 * stop as u64).contains(at);
                if inside && (at - first) % 8 == 0 { 1000 + (at - first) / 8 } else { 0 }
            });
            assert_eq!(read(&out)?, expected.collect::<Vec<_>>(), "{start}..{stop}");
        }

        let small = shared(queue, vec![0_u32; 32])?;
        let (first, end) = (pointer(&small).address(), pointer(&small).add(32).address());
        let at = Buffer::from((first - 24..end + 24).collect::<Vec<u64>>());
        queue.submit(|cg| {
            let call =
                put(cg.read(&at)).reaching(cg.read(&small)).reaching(cg.read_write(&small.range(4..20)));
            cg.parallel_for(at.len(), call.reaching(cg.read_write(&small.range(22..23))))
        })?;
        let expected = (0..32).map(|i| u32::from((4..20).contains(&i) || i == 22));
        assert_eq!(read(&small)?, expected.collect::<Vec<_>>());
        Ok(())
    });
}

#[windlass::kernels]
mod shapes {
    use windlass::prelude::*;

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Mixed {
        pub wide: u64,
        pub at: Vec3<f32>,
        pub counts: [u16; 4],
        pub flags: Vec4<i8>,
        pub back: Ptr<Mixed>,
    }

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Holder {
        pub parts: [Ptr<Mixed>; 2],
    }

    impl Mixed {
        fn shifted(self, by: f32) -> Mixed {
            let Mixed { wide, at, counts, flags, back } = self;
            Mixed { wide, at: at + by, counts, flags, back }
        }
    }

    fn double(x: &mut u16) {
        *x *= 2;
    }

    fn first_of<T>(p: Ptr<T>, other: T, take: bool) -> T {
        if take { p.read() } else { other }
    }

    #[kernel]
    pub fn change(holders: &[Holder], by: u32, out: &mut [Mixed]) {
        let i = global_id(0);
        let p = holders[i].parts[1].sub(1);
        holders[i].parts[1][0].counts[by] += 7;
        p[1].flags.y = -3;
        p[1].at.z *= 2.0;
        double(&mut p[1].counts[0]);
        p[1].wide -= 1;
        let seen = first_of(p.add(1), p[0], true);
        p[1].back.write(seen.shifted(0.5));
        // Outside of the array in it.
        p[1].counts[by + 4] = 9;
        out[i] = p[1].back[0];
    }

    #[kernel(group = [4])]
    pub fn reversed(from: Ptr<Vec2<u32>>, to: Ptr<Vec2<u32>>, #[local] tile: &mut [Vec2<u32>; 4]) {
        let l = local_id(0);
        tile[l] = from[global_id(0)];
        barrier();
        to[global_id(0)] = tile[3 - l];
    }

    #[kernel]
    pub fn halves(x: Ptr<f16>, y: Ptr<f64>, bytes: Ptr<u8>) {
        let i = global_id(0);
        y[i] = x[i] as f64 * 0.5;
        x[i] = y[i] as f16;
        bytes[i] -= 1;
    }

    /// What an author may call a function, and what it may not become.
    fn w_far_load_u32(at: u64) -> u32 {
        at as u32 + 1
    }

    #[kernel]
    pub fn named(at: u64, out: &mut [u32]) {
        out[global_id(0)] = w_far_load_u32(at);
    }
}

#[test]
fn parts_of_elements_are_reached() {
    with_addresses(|queue| {
        let one = |wide| shapes::Mixed {
            wide,
            at: Vec3::new(1.0, 2.0, 3.0),
            counts: [10, 20, 30, 40],
            flags: Vec4::new(1, 2, 3, 4),
            back: Ptr::null(),
        };
        let x = shared(queue, vec![one(0), one(50), one(60), one(70)])?;
        x.host_write().blocking_wait()?[1].back = pointer(&x).add(3);
        let holders = [shapes::Holder { parts: [Ptr::null(), pointer(&x).add(1)] }];
        let (holders, out) = (Buffer::from(holders.to_vec()), Buffer::from(vec![one(9)]));
        queue.submit(|cg| {
            let call = shapes::change(cg.read(&holders), 2, cg.write(&out));
            cg.parallel_for(1, call.reaching(cg.read_write(&x)))
        })?;
        let x = read(&x)?;
        assert_eq!((x[1].wide, x[1].at, x[1].counts), (49, Vec3::new(1.0, 2.0, 6.0), [20, 20, 37, 40]));
        assert_eq!((x[1].flags, x[2].wide, x[0].counts), (Vec4::new(1, -3, 3, 4), 60, [10, 20, 30, 40]));
        for seen in [x[3], read(&out)?[0]] {
            assert_eq!((seen.wide, seen.at, seen.counts), (49, Vec3::new(1.5, 2.5, 6.5), [20, 20, 37, 40]));
            assert_eq!(seen.back, x[1].back);
        }
        Ok(())
    });
}

#[test]
fn accessors_stand_for_pointers() {
    with_addresses(|queue| {
        let pair = |i: u32| Vec2::new(i, 2 * i);
        let (from, to) = (shared(queue, (0..8).map(pair).collect())?, shared(queue, vec![pair(0); 9])?);
        let range = NdRange { global: [8], local: [4] };
        queue.submit(|cg| {
            cg.parallel_for(range, shapes::reversed(cg.read(&from), cg.read_write(&to.range(1..))))
        })?;
        assert_eq!(read(&to)?, [0, 3, 2, 1, 0, 7, 6, 5, 4].map(pair));
        if queue.device().has(Aspect::Fp16) && queue.device().has(Aspect::Fp64) {
            let (x, y) = (shared(queue, vec![f16::from_f32(3.0); 4])?, shared(queue, vec![0.0_f64; 4])?);
            let bytes = shared(queue, vec![0_u8, 1, 2, 3])?;
            queue.submit(|cg| {
                let call = shapes::halves(cg.read_write(&x), cg.read_write(&y), cg.read_write(&bytes));
                cg.parallel_for(3, call)
            })?;
            assert_eq!((read(&y)?, read(&bytes)?), (vec![1.5, 1.5, 1.5, 0.0], vec![255, 0, 1, 3]));
            assert_eq!(read(&x)?[2..], [f16::from_f32(1.5), f16::from_f32(3.0)]);
        }
        Ok(())
    });
}

/// A function of this name that kept it would be taken for an access by its argument, where nothing is.
#[test]
fn a_functions_name_gives_it_no_address() {
    for queue in queues().iter().filter(|queue| queue.device().has(Aspect::Int64)) {
        let out = Buffer::<u32>::new(1);
        queue
            .submit(|cg| cg.parallel_for(1, shapes::named(41, cg.overwrite(&out))))
            .expect("it is submitted");
        assert_eq!(read(&out).expect("it is read"), [42]);
    }
}

#[windlass::kernel]
fn beside(p: Ptr<u32>, x: &[u32], y: &mut [u32]) {
    let i = global_id(0);
    p[i] += 100;
    y[i] = x[i] + p[i];
}

/// Arguments that show what a pointer leads to are no plain slices on the host.
#[test]
fn memory_is_an_argument_and_pointed_to() {
    with_addresses(|queue| {
        let x = shared(queue, (0..1000_u32).collect())?;
        let y = shared(queue, vec![0_u32; 1000])?;
        let launch = |p: &Buffer<u32>, x: &Buffer<u32>, y: &Buffer<u32>| {
            queue.submit(|cg| cg.parallel_for(1000, beside(cg.read_write(p), cg.read(x), cg.read_write(y))))
        };
        launch(&x, &x, &y)?;
        assert!(read(&y)?.iter().zip(0..).all(|(y, i)| [2 * i + 100, 2 * i + 200].contains(y)));
        launch(&y, &x, &y)?;
        let x = read(&x)?;
        let expected: Vec<u32> = (0..1000).map(|i| x[i] + (x[i] + i as u32) + 100).collect();
        let found = read(&y)?;
        assert!(found.iter().zip(&expected).all(|(y, e)| y.abs_diff(*e) <= 100), "{:?}", &found[..4]);
        Ok(())
    });
}

/// A grid counts as a whole, and so do rows that follow each other.
#[test]
fn grids_are_reached() {
    with_addresses(|queue| {
        let grid = queue.blocking_buffer_in::<u64, 2>(MemoryKind::Shared, [4, 3])?;
        let from = Buffer::with_shape([4, 3], (100..112).collect::<Vec<u64>>())?;
        queue.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&grid)))?;
        let first = grid.pointer().expect("shared memory has addresses").address();
        let at = Buffer::from((0..12).map(|i| first + 8 * i).collect::<Vec<u64>>());
        let out = Buffer::<u64>::new(12);
        for (rows, reached) in [(0..4, 0..12), (1..3, 3..9)] {
            queue.submit(|cg| {
                let call = look(cg.read(&at), cg.overwrite(&out));
                cg.parallel_for(12, call.reaching(cg.read(&grid.range((rows, ..)))))
            })?;
            let expected = (0..12).map(|i| if reached.contains(&i) { 100 + i } else { 0 });
            assert_eq!(read(&out)?, expected.collect::<Vec<u64>>());
        }
        Ok(())
    });
}

/// Takes what `look` takes, but for its pointers.
#[windlass::kernel]
fn add_up(at: &[u64], out: &mut [u64], more: [u64; 16]) {
    out[global_id(0)] = at[global_id(0)] + more[1];
}

/// Only a kernel's own function says what its pointers reach. Whoever passes a value in that place is refused, by whatever way the code of
/// such a kernel comes into a call.
#[test]
fn nobody_else_says_what_is_reached() {
    with_addresses(|queue| {
        let (at, out) = (Buffer::from(vec![0_u64]), Buffer::<u64>::new(1));
        let mut everything = [0_u64; 16];
        everything[1] = u64::MAX;
        let refused = |submitted: windlass::Result<Event>| match submitted {
            Ok(_) => panic!("it is let through on {}", queue.device()),
            Err(error) => assert!(error.is_invalid_input(), "{error}"),
        };
        let own = look::kernel();
        let copied = Kernel::new("copied", own.slots().iter().cloned(), own.images().iter().cloned());
        let without_needs = own.clone().needing([]);
        for kernel in [own, &copied, &copied.in_forms(own.images().iter().cloned()), &without_needs] {
            refused(queue.submit(|cg| {
                let call = KernelCall::new(kernel).buffer(cg.read(&at)).buffer(cg.overwrite(&out));
                cg.parallel_for(1, call.value(everything))
            }));
        }
        let forged = add_up::kernel().in_forms(own.images().iter().cloned());
        refused(queue.submit(|cg| {
            let call = add_up(cg.read(&at), cg.overwrite(&out), everything);
            cg.parallel_for(1, call.of(&forged))
        }));
        // In forms of its own it is what it was.
        let same = own.in_forms(own.images().iter().cloned());
        queue
            .submit(|cg| cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).of(&same)))?
            .blocking_wait()
    });
}

/// Work that takes no answer of the device: each is refused by its submission, in words.
#[test]
fn what_no_pointer_leads_to_is_refused() {
    with_addresses(|queue| {
        let refused = |what: &str, submit: &dyn Fn() -> windlass::Result<Event>| match submit() {
            Ok(_) => panic!("{what} is let through on {}", queue.device()),
            Err(error) => assert!(error.to_string().contains(what), "{error}"),
        };
        let x = shared(queue, vec![0_u64; 16])?;
        let (at, out) = (Buffer::from(vec![0_u64]), Buffer::<u64>::new(1));
        let anywhere = Buffer::<u64>::new(4);
        refused("Queue::buffer_in", &|| {
            queue.submit(|cg| {
                cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).reaching(cg.read(&anywhere)))
            })
        });
        let other = shared(queue, vec![0_u32; 4])?;
        refused("elements of `u32`, and follows pointers to `u64` only", &|| {
            queue.submit(|cg| {
                cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).reaching(cg.read(&other)))
            })
        });
        refused("use `cg.read_write`", &|| {
            queue.submit(|cg| {
                cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).reaching(cg.overwrite(&x)))
            })
        });
        refused("9 parts of memory with elements of `u64`, and a launch takes 8", &|| {
            queue.submit(|cg| {
                let call = look(cg.read(&at), cg.overwrite(&out));
                let parts = (0..9).map(|part| x.range(part..part + 1));
                cg.parallel_for(1, parts.fold(call, |call, part| call.reaching(cg.read(&part))))
            })
        });
        let grid = queue.blocking_buffer_in::<u64, 2>(MemoryKind::Shared, [4, 4])?;
        refused("rows do not follow each other", &|| {
            queue.submit(|cg| {
                let part = cg.read(&grid.range((1..3, 1..3)));
                cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).reaching(part))
            })
        });
        let context = Context::blocking_open(std::slice::from_ref(queue.device()))?;
        let second = Queue::builder().context(&context).blocking_build()?;
        refused("does not reach", &|| {
            second
                .submit(|cg| cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).reaching(cg.read(&x))))
        });
        if queue.device().has(Aspect::FineMemory) {
            refused("only kernels take it that change it by atomic operations alone", &|| {
                queue.submit(|cg| {
                    cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out)).reaching(cg.concurrent(&x)))
                })
            });
        }
        Ok(())
    });
}

/// Devices without addresses say so before anything runs, and say which kernel.
#[test]
fn devices_without_addresses_refuse() {
    for queue in queues().iter().filter(|queue| !queue.device().has(Aspect::Pointers)) {
        let (at, out) = (Buffer::from(vec![0_u64]), Buffer::<u64>::new(1));
        let error = queue
            .submit(|cg| cg.parallel_for(1, look(cg.read(&at), cg.overwrite(&out))))
            .expect_err("it has no addresses");
        assert!(error.is_unsupported(), "{error}");
        let text = error.to_string();
        assert!(text.contains("kernel `look` needs memory with addresses"), "{text}");
        assert!(queue.device().can_run(look::kernel()).is_err());
    }
    let error = look(&[0_u64][..], &mut [0_u64][..]).run_here(1).expect_err("there is nothing to reach");
    assert!(error.to_string().contains("kernel `look` follows pointers"), "{error}");
}
