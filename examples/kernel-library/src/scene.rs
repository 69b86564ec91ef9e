//! Rays and what they meet.

/// Spheres and a floor.
#[windlass::kernels]
pub mod rays {
    use windlass::prelude::*;

    /// What is nearer than this is where the ray starts.
    const NEAR: f32 = 1e-3;
    /// Nothing is farther away than this.
    pub const FAR: f32 = 1e6;

    /// A line from a point in a direction of length 1.
    #[derive(Clone, Copy, Debug)]
    pub struct Ray {
        /// The point.
        pub from: Vec3<f32>,
        /// The direction.
        pub to: Vec3<f32>,
    }

    /// A ball.
    #[derive(Clone, Copy, Debug, DeviceCopy)]
    #[repr(C)]
    pub struct Sphere {
        /// Its middle.
        pub middle: Vec3<f32>,
        /// Its radius.
        pub radius: f32,
        /// Red, green and blue.
        pub color: Vec3<f32>,
        /// How much of the light it reflects as a mirror does.
        pub mirror: f32,
    }

    /// Where a ray meets something.
    #[derive(Clone, Copy, Debug)]
    pub struct Hit {
        /// How far away; [`FAR`] is nowhere.
        pub distance: f32,
        /// Which way is out there.
        pub normal: Vec3<f32>,
        /// Which of the things it is.
        pub what: u32,
    }

    impl Ray {
        pub fn at(self, distance: f32) -> Vec3<f32> {
            self.from + self.to * distance
        }

        /// As it goes on from a mirror.
        pub fn mirrored(self, hit: Hit) -> Self {
            let to = self.to - hit.normal * (2.0 * self.to.dot(hit.normal));
            Ray { from: self.at(hit.distance), to: to.normalize() }
        }
    }

    impl Sphere {
        /// How far away a ray meets it.
        pub fn distance(self, ray: Ray) -> f32 {
            let to = ray.from - self.middle;
            let half = to.dot(ray.to);
            let root = half * half - to.dot(to) + self.radius * self.radius;
            if root < 0.0 {
                return FAR;
            }
            let (near, far) = (-half - root.sqrt(), -half + root.sqrt());
            if near > NEAR {
                near
            } else if far > NEAR {
                far
            } else {
                FAR
            }
        }
    }

    /// What a ray meets first.
    pub fn first(ray: Ray, spheres: &[Sphere]) -> Hit {
        let mut hit = Hit { distance: FAR, normal: Vec3::splat(0.0), what: 0 };
        for k in 0..spheres.len() {
            let distance = spheres[k].distance(ray);
            if distance < hit.distance {
                hit.distance = distance;
                hit.what = k;
            }
        }
        if hit.distance < FAR {
            hit.normal = (ray.at(hit.distance) - spheres[hit.what].middle).normalize();
        }
        hit
    }
}
