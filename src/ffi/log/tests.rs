use super::*;

/// One test, since ring and level are the process's; others that log meanwhile only add lines.
#[test]
fn the_ring_is_bounded_counts_what_it_lost_and_gives_whole_lines() {
    let poll = |buf: &mut [u8]| {
        let (mut used, mut dropped) = (0, 0);
        // SAFETY: a buffer and two numbers, live for the call.
        let rc = unsafe { region_log_poll(buf.as_mut_ptr().cast(), buf.len(), &mut used, &mut dropped) };
        (rc, used, dropped)
    };
    let mut buf = vec![0; 2 * RING_BYTES_MAX];
    assert_eq!(poll(&mut buf).0, 0);
    for i in 0..3 * RING_LINES_MAX {
        ::log::info!(target: "ring", "message {i} with \"quotes\", \\, \u{7} and ü");
    }
    let (rc, need, _) = poll(&mut buf[..4]);
    assert_eq!(rc, code::REGION_TRUNCATED as i32);
    assert!(need > 4);
    let (rc, used, dropped) = poll(&mut buf);
    assert_eq!(rc, 0);
    assert!(used <= RING_BYTES_MAX && dropped >= 2 * RING_LINES_MAX as u64, "{used} bytes, {dropped} dropped");
    let text = std::str::from_utf8(&buf[..used]).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() <= RING_LINES_MAX);
    let mut last = None;
    for line in text.lines() {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        if json["target"] == "ring" {
            let message = json["message"].as_str().unwrap().to_string();
            assert!(message.ends_with("with \"quotes\", \\, \u{7} and ü"), "{message}");
            assert!(json["level"] == 3 && json["unix_ns"].as_u64().unwrap() > 0);
            last = Some(message);
        }
    }
    assert!(last.unwrap().starts_with(&format!("message {} ", 3 * RING_LINES_MAX - 1)), "the newest are kept");
    // One message beyond the ring's size is dropped, and counted.
    ::log::info!(target: "ring", "{}", "x".repeat(RING_BYTES_MAX));
    assert!(poll(&mut buf).2 >= 1);
}
