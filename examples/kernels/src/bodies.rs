//! Stars that pull at each other: each work-group goes through all of them, one tile in local memory after the other.

use windlass::NdRange;
use windlass::prelude::*;

use crate::Report;
use kernels::Body;

const COUNT: usize = 256;
const GROUP: usize = 64;
/// Each so many steps there is a line of the table.
const EVERY: usize = 25;
const LINES: usize = 6;
const STEP: f32 = 0.01;

#[windlass::kernels]
mod kernels {
    #[kernels]
    use windlass::groups::*;
    use windlass::prelude::*;

    /// Keeps stars that meet from being thrown out: the pull is that of balls of this radius.
    pub const SOFT: f32 = 0.1;

    /// A star.
    #[derive(Clone, Copy, Debug, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Body {
        /// Where it is.
        pub at: Vec3<f32>,
        /// How heavy it is.
        pub mass: f32,
        /// How it moves.
        pub speed: Vec3<f32>,
    }

    impl Body {
        fn distance(self, other: Body) -> f32 {
            let way = other.at - self.at;
            (way.dot(way) + SOFT * SOFT).sqrt()
        }

        fn pull(self, other: Body) -> Vec3<f32> {
            let distance = self.distance(other);
            (other.at - self.at) * (other.mass / (distance * distance * distance))
        }

        fn drift(&mut self, time: f32) {
            self.at += self.speed * time;
        }
    }

    /// Changes how the stars move, by what all others pull.
    #[kernel]
    pub fn kick(time: f32, bodies: &[Body], speeds: &mut [Vec3<f32>], #[local] tile: &mut [Body]) {
        let (i, l) = (global_id(0), local_id(0));
        let body = bodies[i];
        let mut pull = Vec3::splat(0.0);
        for group in 0..group_count(0) {
            tile[l] = bodies[group * local_size(0) + l];
            barrier();
            for other in 0..local_size(0) {
                pull += body.pull(tile[other]);
            }
            barrier();
        }
        speeds[i] = body.speed + pull * time;
    }

    #[kernel]
    pub fn drift(time: f32, bodies: &mut [Body], speeds: &[Vec3<f32>]) {
        let i = global_id(0);
        bodies[i].speed = speeds[i];
        bodies[i].drift(time);
    }

    /// What energy is in the movement and in the pull of the stars of each group.
    #[kernel]
    pub fn energy(bodies: &[Body], moving: &mut [f32], pulling: &mut [f32], #[local] room: &mut [f32]) {
        let i = global_id(0);
        let body = bodies[i];
        let mut near = 0.0;
        for k in 0..bodies.len() {
            if k != i {
                near += bodies[k].mass / body.distance(bodies[k]);
            }
        }
        let all_moving = group_sum(0.5 * body.mass * body.speed.dot(body.speed), room);
        // Each pair is counted from both of its ends.
        let all_pulling = group_sum(-0.5 * body.mass * near, room);
        if local_id(0) == 0 {
            moving[group_id(0)] = all_moving;
            pulling[group_id(0)] = all_pulling;
        }
    }
}

/// A disc of stars that turns.
fn disc() -> Vec<Body> {
    let star = |k: usize| {
        // The golden angle puts them evenly.
        let (radius, turn) = (((k as f32 + 0.5) / COUNT as f32).sqrt() * 2.0, k as f32 * 2.399_963);
        let (sin, cos) = turn.sin_cos();
        let speed = 0.6 * radius.sqrt();
        Body {
            at: Vec3::new(radius * cos, radius * sin, 0.2 * (k as f32 * 0.7).sin()),
            mass: 1.0 / COUNT as f32,
            speed: Vec3::new(-speed * sin, speed * cos, 0.0),
        }
    };
    (0..COUNT).map(star).collect()
}

fn plain(bodies: &mut [Body], steps: usize) {
    for _ in 0..steps {
        let speed = |body: &Body| {
            let mut pull = Vec3::splat(0.0);
            for other in bodies.iter() {
                let way = other.at - body.at;
                let distance = (way.dot(way) + kernels::SOFT * kernels::SOFT).sqrt();
                pull = pull + way * (other.mass / (distance * distance * distance));
            }
            body.speed + pull * STEP
        };
        let speeds: Vec<Vec3<f32>> = bodies.iter().map(speed).collect();
        for (body, speed) in bodies.iter_mut().zip(speeds) {
            body.speed = speed;
            body.at = body.at + speed * STEP;
        }
    }
}

fn places(bodies: &[Body]) -> Vec<f32> {
    bodies.iter().flat_map(|body| [body.at.x, body.at.y, body.at.z]).collect()
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let range = NdRange { global: [COUNT], local: [GROUP] };
    let mut expected = disc();
    let bodies = Buffer::from(expected.clone());
    let speeds = Buffer::<Vec3<f32>>::new(COUNT);
    let (moving, pulling) = (Buffer::<f32>::new(COUNT / GROUP), Buffer::<f32>::new(COUNT / GROUP));
    let mut energies = Vec::new();
    for line in 0..LINES {
        if line > 0 {
            for _ in 0..EVERY {
                queue.submit(|cg| {
                    let call = kernels::kick(STEP, cg.read(&bodies), cg.overwrite(&speeds), GROUP);
                    cg.parallel_for(range, call)
                })?;
                queue.submit(|cg| {
                    cg.parallel_for(COUNT, kernels::drift(STEP, cg.read_write(&bodies), cg.read(&speeds)))
                })?;
            }
        }
        queue.submit(|cg| {
            let (moving, pulling) = (cg.overwrite(&moving), cg.overwrite(&pulling));
            cg.parallel_for(range, kernels::energy(cg.read(&bodies), moving, pulling, GROUP))
        })?;
        let moving: f32 = moving.host_read().blocking_wait()?.iter().sum();
        let pulling: f32 = pulling.host_read().blocking_wait()?.iter().sum();
        energies.push((moving, pulling));
    }
    let start = energies[0].0 + energies[0].1;
    let drifts: Vec<f32> =
        energies.iter().map(|(moving, pulling)| (moving + pulling) / start - 1.0).collect();
    let rows = energies.iter().zip(&drifts).enumerate().map(|(line, ((moving, pulling), drift))| {
        let part = format!("{:.2} %", drift * 100.0);
        [(line * EVERY).to_string(), format!("{moving:.4}"), format!("{pulling:.4}"), part]
    });
    plain(&mut expected, EVERY * (LINES - 1));
    let found = places(&bodies.host_read().blocking_wait()?);
    Ok(Report::table(["step", "moving", "pulling", "drift"], rows)
        .near("places", &found, &places(&expected), 5e-3)
        .near("drift", &drifts, &[0.0; LINES], 0.02))
}
