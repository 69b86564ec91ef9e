//! What can be known at the call is its error; the rest comes out of the event.

use windlass::image::Kernel;
use windlass::{BackendError, Buffer, KernelCall};

use crate::check::{Problem, Verdict, refused};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn build_error_tells_kernel_and_log(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(8);
    let broken = || {
        s.home.submit(|cg| {
            let to = cg.overwrite(&v);
            cg.parallel_for(8, s.call("broken").buffer(to))
        })
    };
    // The build is not waited for in `submit`; the first error is the event's. (A kernel that another run has
    // tried to build is refused at once.)
    let first = broken();
    let was_submitted = first.is_ok();
    let error = match first {
        Ok(event) => refused(event.await)?,
        Err(error) => error,
    };
    if error.is_unsupported() {
        return Err(Problem::Unsupported(error.to_string()));
    }
    match error.backend_error() {
        Some(BackendError::Build { kernel, log }) => {
            ensure_eq!(kernel.as_str(), "broken");
            ensure!(!log.trim().is_empty());
            ensure!(
                error.to_string().contains("broken") && error.to_string().contains(log.trim()),
                "{error}"
            );
        }
        other => return Err(Problem::wrong(format!("{other:?} is no error of a build"))),
    }
    ensure!(refused(broken())?.backend_error().is_some(), "the second time it is known at the call");
    // What it would have written is not there, and the device goes on.
    let read = v.host_read().await;
    ensure_eq!(read.is_err_and(|e| e.is_dependency_failed()), was_submitted);
    s.count(&s.home, &v, 1)?.await?;
    Ok(())
}

pub(super) async fn kernel_fails_while_it_runs(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(8);
    let fails = s.home.submit(|cg| {
        let to = cg.read_write(&v);
        cg.parallel_for(8, s.call("fails").buffer(to))
    })?;
    let behind = s.increment(&s.away, &v)?;
    let error = refused(fails.await)?;
    ensure!(error.backend_error().is_some(), "{error}");
    ensure!(refused(behind.await)?.is_dependency_failed());
    // The lane goes on.
    s.count(&s.home, &v, 1)?.await?;
    Ok(())
}

pub(super) async fn wrong_arguments_are_refused(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(8);
    let before = s.runtime.stats().submitted;
    let mut errors = Vec::new();
    let home = &s.home;
    errors.push(home.submit(|cg| cg.parallel_for(8, s.call("fill_index").buffer(cg.overwrite(&v)))));
    errors.push(home.submit(|cg| cg.parallel_for(8, s.call("increment").value(1_u32))));
    errors.push(
        home.submit(|cg| {
            cg.parallel_for(8, s.call("fill_index").buffer(cg.overwrite(&v)).buffer(cg.read(&v)))
        }),
    );
    errors.push(
        home.submit(|cg| cg.parallel_for(8, s.call("fill_index").buffer(cg.overwrite(&v)).value(1_u64))),
    );
    errors.push(home.submit(|cg| cg.parallel_for(8, s.call("increment").buffer(cg.read(&v)))));
    errors.push(home.submit(|cg| {
        let (from, to) = (cg.overwrite(&v), cg.overwrite(&v));
        cg.parallel_for(8, s.call("copy").buffer(from).buffer(to))
    }));
    errors.push(
        home.submit(|cg| cg.parallel_for([usize::MAX, 2], s.call("increment").buffer(cg.read_write(&v)))),
    );
    errors.push(home.submit(|cg| cg.fill(&cg.read(&v), 1)));
    errors.push(home.submit(|cg| {
        cg.host_task(async |_| Ok(()))?;
        cg.fill(&cg.overwrite(&v), 1)
    }));
    errors.push(home.submit(|cg| {
        cg.fill(&cg.overwrite(&v), 1)?;
        cg.host_task(async |_| Ok(()))
    }));
    for (i, error) in errors.into_iter().enumerate() {
        let error = refused(error)?;
        ensure!(error.is_invalid_input(), "number {i}: {error}");
    }
    ensure_eq!(s.runtime.stats().submitted, before, "nothing was submitted");
    let count = s.home.submit(|cg| cg.parallel_for(8, s.call("fill_index")));
    ensure!(refused(count)?.to_string().contains("fill_index"), "the error names the kernel");
    Ok(())
}

pub(super) async fn wrong_windows_are_refused(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(8);
    for window in [v.range(4..9), v.range(..4).range(2..6), v.range(9..)] {
        ensure!(refused(s.increment(&s.home, &window))?.is_invalid_input());
        ensure!(refused(window.host_read().await)?.is_invalid_input());
    }
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is tried")]
    let backwards = v.range(5..3);
    ensure!(refused(s.increment(&s.home, &backwards))?.is_invalid_input());
    s.increment(&s.home, &v)?.await?;
    Ok(())
}

pub(super) async fn kernel_without_a_fitting_image(s: &Subject) -> Verdict {
    let kernel = Kernel::new("homeless", [], []);
    let error = refused(s.home.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel))))?;
    ensure!(error.is_unsupported() && error.to_string().contains("homeless"), "{error}");
    Ok(())
}

pub(super) async fn host_task_errors_come_through(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(8);
    let error = refused(s.fail(&v, "as it was told to")?.await)?;
    ensure!(error.to_string().contains("as it was told to"), "{error}");
    let source = std::error::Error::source(&error);
    ensure_eq!(source.map(ToString::to_string), Some("as it was told to".to_owned()));
    let panics = s.away.submit(|cg| cg.host_task(async |_| panic!("in a host task")))?;
    let error = refused(panics.await)?;
    ensure!(error.is_panic() && error.to_string().contains("in a host task"), "{error}");
    let same = s.home.submit(|cg| cg.host_task(async |_| Err(windlass::Error::other("own").into())))?;
    ensure!(refused(same.await)?.to_string().contains("own"));
    Ok(())
}

pub(super) async fn host_task_views_may_not_alias(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(8);
    s.home
        .submit(|cg| {
            let (mut a, b, c) =
                (cg.read_write(&v.range(..6)), cg.read(&v.range(4..)), cg.read(&v.range(6..)));
            cg.host_task(async move |host| {
                {
                    let mine = host.view_mut(&mut a)?;
                    match host.view(&b) {
                        Err(error) if error.is_aliased() => {}
                        _ => return Err("two views of one element".into()),
                    }
                    host.view(&c)?;
                    drop(mine);
                }
                host.view(&b)?;
                Ok(())
            })
        })?
        .await?;
    Ok(())
}

pub(super) async fn failing_future_fails_its_group(s: &Subject) -> Verdict {
    let v = Buffer::from(vec![1_u32; 8]);
    let submit = |future: std::pin::Pin<Box<dyn Future<Output = Result<(), std::fmt::Error>> + Send>>| {
        s.home.submit(|cg| {
            cg.after(future);
            let to = cg.read_write(&v);
            cg.parallel_for(8, s.call("increment").buffer(to))
        })
    };
    submit(Box::pin(async { Ok(()) }))?.await?;
    let failed = submit(Box::pin(async { Err(std::fmt::Error) }))?;
    let behind = s.increment(&s.away, &v)?;
    ensure!(refused(failed.await)?.to_string().contains(&std::fmt::Error.to_string()));
    ensure!(refused(behind.await)?.is_dependency_failed());
    s.count(&s.home, &v, 0)?.await?;
    ensure!(refused(submit(Box::pin(async { panic!("in a future") }))?.await)?.is_panic());
    Ok(())
}
