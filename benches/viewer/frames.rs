//! What a frame costs while a reader moves over the flame graph, zooms and pans.

use crate::browser::Browser;
use crate::{Failure, cpu};

/// Frames to each kind of movement.
const FRAMES: u32 = 120;

/// What a reader does, once a frame: `step` goes from 0 to 1.
const MOVEMENTS: [(&str, &str); 3] = [
    (
        "hover",
        "send('pointermove', { clientX: box.left + box.width * step,
             clientY: box.top + box.height * (0.5 + 0.45 * Math.sin(step * 40)) })",
    ),
    (
        "zoom",
        "send('wheel', { ctrlKey: true, deltaY: step < 0.5 ? -12 : 12,
             clientX: box.left + box.width * 0.4, clientY: box.top + 20 })",
    ),
    (
        "pan",
        "if (step === 0) send('wheel', { ctrlKey: true, deltaY: -500, clientX: box.left + box.width / 2 });
         send('wheel', { deltaX: step < 0.5 ? 9 : -9 })",
    ),
];

/// The CPU time of the main thread in a frame, in milliseconds, for each movement over the page
/// that is open.
pub(crate) fn of_page(browser: &Browser) -> Result<Vec<(&'static str, f64)>, Failure> {
    let mut costs = Vec::new();
    for (name, movement) in MOVEMENTS {
        let before = cpu::now(browser);
        browser.script(&format!(
            "const canvas = document.querySelector('#views canvas');
             const box = canvas.getBoundingClientRect();
             const send = (kind, how) => canvas.dispatchEvent(
               new (kind === 'wheel' ? WheelEvent : PointerEvent)(kind, {{ bubbles: true, cancelable: true, ...how }}));
             const frame = () => new Promise(requestAnimationFrame);
             return (async () => {{
               for (let at = 0; at < {FRAMES}; at++) {{
                 const step = at / {FRAMES};
                 {movement};
                 await frame();
               }}
             }})();"
        ))?;
        costs.push((name, (cpu::now(browser) - before) / f64::from(FRAMES)));
    }
    Ok(costs)
}
