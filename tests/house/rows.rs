//! Which test holds which row of what other proxies do (T) and of what their users reported (I): the rows of the study that the
//! data plane is built by, what other controllers decide, and what is tried against the admin listener, each in a few words of
//! its own. A row without a test says why.

use super::source;

/// What stands behind a row.
enum Row {
    /// Tests, by name; all of them exist.
    Held(&'static [&'static str]),
    /// It does not apply, and why.
    NotOurs(&'static str),
}

use Row::{Held, NotOurs};

#[rustfmt::skip]
const ROWS: &[(&str, Row)] = &[
    ("T01 no weight, nobody", Held(&["nobody_is_drawn_for_a_canary_without_weight_and_all_are_for_one_with_the_whole"])),
    ("T02 the whole, all", Held(&["nobody_is_drawn_for_a_canary_without_weight_and_all_are_for_one_with_the_whole"])),
    ("T03 T04 halves", Held(&["a_workers_draws_give_the_share_that_was_asked_for"])),
    ("T05 70/30/0 of three", NotOurs("a rollout has two versions with weight; a third has none by construction")),
    ("T06 shares within 4 deviations", Held(&["shares_hold_over_keep_alive_connections", "shares_hold_over_one_http2_connection"])),
    ("T07 one key of a million", Held(&["one_part_of_a_million_is_one_bucket"])),
    ("T08 one version takes all", Held(&["without_a_canary_every_claim_means_stable"])),
    ("T09 T10 sums of nothing, sums that overflow", NotOurs("the canary's weight is a share, and stable has the rest")),
    ("T12 the order of a counter", NotOurs("there is no counter: each request is a draw")),
    ("T13 one down and up again", Held(&["an_upstream_that_is_back_is_used_at_once"])),
    ("T14 all down", Held(&["nobody_listening_is_a_502_charged_to_the_version", "nobody_stands_in_for_stable"])),
    ("T15 no order that restarts", Held(&["saving_the_file_ten_times_a_second_under_load_fails_no_request", "a_workers_draws_give_the_share_that_was_asked_for"])),
    ("T16 weights on open connections", Held(&["a_changed_weight_holds_for_the_next_request_on_open_connections"])),
    ("T17-T20 always, never, a word of one's own", Held(&["each_claim_comes_before_those_below_it", "the_force_header_decides_and_is_no_evidence"])),
    ("T21-T23 forcing by pattern", NotOurs("forcing has words; patterns are header routes, whose faults are refused when the file is read")),
    ("T25 forcing by cookie", Held(&["a_cookie_forces_a_version_and_a_wrong_word_forces_none"])),
    ("T26 another header forces", Held(&["another_header_forces_from_the_next_request_on"])),
    ("T27-T30 canaries that are routes of their own", NotOurs("a canary is a version of a service, never a route")),
    ("T31 forced is not sampled", Held(&["the_force_header_decides_and_is_no_evidence"])),
    ("T32 who may force", Held(&["who_forces_must_be_near_or_know_the_secret"])),
    ("T33 forced once and kept", NotOurs("forcing is by request; the cookie has no version to keep")),
    ("T34 a forced answer hands out nothing", Held(&["a_forced_answer_hands_out_no_id_and_the_next_request_is_drawn"])),
    ("T35 T36 a cookie follows the weight", Held(&["a_cookie_keeps_clients_where_they_are_and_moves_only_those_who_must", "the_sticky_cookie_moves_only_the_clients_it_must"])),
    ("T37 a cookie of a dead version", Held(&["stable_answers_for_a_dead_canary_whatever_the_method_and_the_canary_is_charged"])),
    ("T39 T40 T42-T44 the cookie's attributes", Held(&["a_new_client_gets_its_id_unless_caches_share_the_answer"])),
    ("T41 a cookie with a life", Held(&["a_cookie_with_a_life_says_how_long_in_seconds"])),
    ("T45 new clients by share, then kept", Held(&["the_sticky_cookie_moves_only_the_clients_it_must"])),
    ("T46 cookies of two rules", NotOurs("the cookie is an id of the client; each service makes its own bucket of it")),
    ("T48 two cookies of a name", Held(&["the_id_is_found_in_any_cookie_field_and_garbage_is_absent"])),
    ("T49 sets that only grow", Held(&["clients_move_only_the_way_the_weight_moves"])),
    ("T50 others at the next rollout", Held(&["another_rollout_begins_with_other_clients"])),
    ("T52 caches share no cookie", Held(&["a_new_client_gets_its_id_unless_caches_share_the_answer"])),
    ("T53 T54 prefixes and headers", Held(&["prefixes_and_headers_are_told_apart"])),
    ("T55 exact before longest prefix", Held(&["an_exact_path_comes_before_the_longest_prefix"])),
    ("T56 exact is exact", Held(&["an_exact_path_is_the_whole_path_in_its_case"])),
    ("T58 HEAD is not GET", Held(&["head_is_not_get"])),
    ("T59 path, method, header", Held(&["a_path_beats_a_method_and_a_method_beats_headers"])),
    ("T60 parameters", Held(&["query_parameters_are_whole_and_more_of_them_win"])),
    ("T63 the port is no part of a host", Held(&["the_nearest_host_wins_and_others_take_what_it_leaves"])),
    ("T64 404 without a match", Held(&["requests_reach_the_service_of_their_route_and_404_without_one"])),
    ("T65-T69 header filters", Held(&["fields_are_set_added_and_removed_and_others_stay", "fields_of_requests_and_answers_are_changed_by_route_and_by_version"])),
    ("T70 a version's own filters", Held(&["filters_of_a_version_go_with_that_version_alone"])),
    ("T71 T72 redirects", Held(&["a_redirect_keeps_what_it_does_not_change"])),
    ("T74 the host is rewritten", Held(&["host_and_path_are_rewritten_and_the_clients_are_told"])),
    ("T75 preflights", Held(&["scripts_of_other_origins_are_answered_by_the_rule_and_not_by_the_upstream", "an_origin_is_met_by_whole_labels"])),
    ("T76 a copy and its changes", Held(&["a_copy_has_the_same_path_the_changed_fields_and_a_mark"])),
    ("T77 shares of copies", Held(&["of_so_many_percent_there_is_a_copy_and_each_has_its_own_draw"])),
    ("T78 a mirror that hangs", Held(&["a_target_that_never_answers_holds_up_nobody_and_is_soon_sent_no_more"])),
    ("T79 a copy of an empty body", Held(&["a_body_is_copied_whole_or_not_at_all_and_an_empty_one_breaks_nothing"])),
    ("T80 a mirror that fails", Held(&["a_target_that_fails_in_any_way_changes_no_answer_and_is_no_evidence"])),
    ("T81 timeouts", Held(&["no_head_in_time_is_a_504"])),
    ("T82 T84 attempts by status", Held(&["a_status_is_tried_again_so_often_and_no_more"])),
    ("T86 attempts by time", Held(&["an_attempt_that_takes_too_long_is_followed_by_another_if_that_is_wanted"])),
    ("T88 a canary that cannot be reached", Held(&["a_dead_canary_that_may_fail_costs_only_its_own_share", "stable_answers_for_a_dead_canary_whatever_the_method_and_the_canary_is_charged"])),
    ("T89 T90 POST once", Held(&["a_post_whose_body_was_sent_is_never_repeated", "whatever_upstreams_and_clients_do_nobody_gets_anothers_answer_over_the_ordinary_path"])),
    ("T91 WebSocket", Held(&["websockets_pass_with_and_without_tls", "a_websocket_over_http2_reaches_an_http1_upstream_beside_ordinary_requests"])),
    ("T92 prior knowledge on both sides", Held(&["http2_upstreams_get_many_requests_over_one_connection"])),
    ("T93 421 over a connection of another name", Held(&["the_certificate_follows_the_name_and_a_host_of_another_one_is_misdirected"])),
    ("T94 two framings", Held(&["what_may_not_be_passed_on_never_reaches_an_upstream"])),
    ("T96 a session header for gRPC", NotOurs("with `by: header` the key is the client's own; nothing is handed out")),

    ("I-01 clients bounce", Held(&["the_sticky_cookie_moves_only_the_clients_it_must"])),
    ("I-02 pinned and forced", Held(&["who_is_kept_on_a_version_may_still_force_the_other", "each_claim_comes_before_those_below_it"])),
    ("I-03 I-04 pinned for ever", Held(&["a_cookie_keeps_clients_where_they_are_and_moves_only_those_who_must"])),
    ("I-05 drain or abort", Held(&["while_it_drains_the_canary_keeps_its_clients_and_takes_nobody_new"])),
    ("I-06 the share drifts up", Held(&["clients_move_only_the_way_the_weight_moves"])),
    ("I-07 a cookie that has expired", Held(&["a_new_client_gets_its_id_unless_caches_share_the_answer"])),
    ("I-09 I-10 counters that restart", Held(&["a_workers_draws_give_the_share_that_was_asked_for"])),
    ("I-11 weight 0 taken for 1", Held(&["nobody_is_drawn_for_a_canary_without_weight_and_all_are_for_one_with_the_whole"])),
    ("I-12 parts that are too coarse", Held(&["integers_are_parts_of_the_maximum", "one_part_of_a_million_is_one_bucket"])),
    ("I-14 I-16 the hash holds an endpoint and not the version", Held(&["a_header_a_parameter_and_an_address_become_ids", "clients_move_only_the_way_the_weight_moves"])),
    ("I-15 a page and its parts", Held(&["a_page_and_its_parts_come_from_one_version"])),
    ("I-17 retries stay on what fails", Held(&["what_the_canary_fails_stable_answers_and_the_canary_is_charged"])),
    ("I-18 I-19 a dead version, in silence", Held(&["stable_answers_for_a_dead_canary_whatever_the_method_and_the_canary_is_charged", "a_line_tells_who_answered_in_whose_place_and_what_it_took"])),
    ("I-20 a dead version and its cookies", Held(&["stable_answers_for_a_dead_canary_whatever_the_method_and_the_canary_is_charged"])),
    ("I-21 ejecting the only endpoint", Held(&["a_canary_of_one_endpoint_that_is_ejected_is_reverted_for_what_it_should_have_served", "a_dead_canary_is_sent_nothing_and_charged_with_what_it_should_have_had"])),
    ("I-23 a canary seen by other routes", Held(&["a_route_of_one_service_does_not_see_the_canary_of_another"])),
    ("I-25 error pages", NotOurs("there are none")),
    ("I-26 which version it was", Held(&["both_versions_have_series_before_the_first_request", "each_request_has_a_line_that_says_who_served_it_and_why"])),
    ("I-27 gRPC errors inside of 200", Held(&["a_grpc_failure_is_charged_wherever_the_call_says_so"])),
    ("I-28 lives of streams as latency", Held(&["a_websocket_that_lives_makes_no_request_slow", "each_event_is_there_before_the_next_one_happens_and_the_stream_is_no_slow_request", "after_a_101_bytes_pass_both_ways_and_the_head_was_the_answer"])),
    ("I-29 clients that leave", Held(&["a_client_that_leaves_is_no_evidence_before_the_head_and_an_answer_after_it"])),
    ("I-30 what retries hide", Held(&["shares_and_charges_stay_right_while_everything_happens_at_once"])),
    ("I-31 storms of retries", Held(&["retries_of_a_version_that_fails_everything_stay_within_their_budget"])),
    ("I-33 what may be repeated", Held(&["a_post_whose_body_was_sent_is_never_repeated", "a_put_on_a_stale_connection_is_sent_again_with_its_body_and_nobody_notices"])),
    ("I-34 sockets cut by a change", Held(&["a_steps_change_of_weight_leaves_sockets_alone"])),
    ("I-35 weights on long connections", Held(&["a_changed_weight_holds_for_the_next_request_on_open_connections"])),
    ("I-36 addresses that stay old", Held(&["a_failed_connection_asks_at_once_and_does_not_wait_for_the_next_turn", "a_name_with_an_address_where_nobody_listens_is_no_failure"])),
    ("I-37 a new endpoint gets nothing", Held(&["each_way_to_balance_reaches_every_endpoint"])),
    ("I-38 502 for seconds", Held(&["an_upstream_that_is_back_is_used_at_once", "whatever_upstreams_and_clients_do_nobody_gets_anothers_answer_over_the_fast_path"])),
    ("I-41 smuggling", Held(&["what_may_not_be_passed_on_never_reaches_an_upstream", "a_refused_upgrade_is_an_ordinary_answer_and_the_connection_goes_on"])),
    ("I-42 trailers", Held(&["trailers_pass_both_ways_over_both_protocols", "grpc_calls_of_all_kinds_pass_with_and_without_tls"])),
    ("I-43 I-44 mirrors that hurt", Held(&["of_large_bodies_no_more_is_kept_than_there_is_room_for", "a_target_that_never_answers_holds_up_nobody_and_is_soon_sent_no_more"])),
    ("I-47 the cookie's attributes", Held(&["a_new_client_gets_its_id_unless_caches_share_the_answer"])),
    ("I-48 two conditions", Held(&["two_header_conditions_are_both_needed"])),
    ("I-50 the same user, the same answer", Held(&["buckets_are_the_same_for_all_time", "another_rollout_begins_with_other_clients"])),
    ("I-52 an abort that takes a minute", Held(&["a_withdrawal_under_load_holds_from_the_next_request_on"])),
    ("I-54 filters of the wrong version", Held(&["filters_of_a_version_go_with_that_version_alone"])),
    ("I-55 a health check as an outage", Held(&["stable_is_used_as_it_is_when_none_of_its_endpoints_is_well", "who_is_left_out_gets_nothing_unless_there_is_nobody_else"])),
];

/// What is tried against the admin listener, by themes of the study, and which test tries it.
#[rustfmt::skip]
const ADMIN: &[(&str, Row)] = &[
    ("no open writes: missing, wrong and lesser tokens", Held(&["every_error_is_json_with_a_word_and_says_what_to_do", "a_read_token_closes_reads_but_not_health", "a_reader_may_look_and_change_nothing"])),
    ("no open writes: a public address without tokens", Held(&["broken_files_are_answered_as_written_down"])),
    ("no open writes: guessing", Held(&["wrong_tokens_are_answered_ever_slower_and_sessions_go_on", "many_addresses_do_not_fill_the_memory_and_get_no_free_tries", "tokens_are_compared_whole"])),
    ("no open writes: whose socket it is", Held(&["the_command_line_finds_a_socket_that_only_its_owner_may_open"])),
    ("CSRF: forms and requests of other sites", Held(&["nothing_is_done_for_a_form_that_is_not_ones_own", "another_sites_page_may_neither_ask_nor_look_at_answers"])),
    ("CSRF: GET that changes, overridden methods", Held(&["nothing_changes_by_a_method_that_only_looks_whatever_it_says_it_is"])),
    ("CSRF: an old generation", Held(&["a_button_leads_over_the_login_and_a_question_to_a_command_with_actor_and_reason", "every_error_is_json_with_a_word_and_says_what_to_do"])),
    ("DNS rebinding: foreign, absent and doubled Host", Held(&["a_name_that_was_bound_to_loopback_gets_nothing_even_with_the_token", "another_sites_page_gets_nothing"])),
    ("outbound: metadata, rebinding, redirects, endless bodies", Held(&["an_address_that_is_refused_is_never_connected_to", "a_redirect_to_metadata_is_an_answer_and_not_followed", "a_large_answer_is_not_taken", "a_body_that_stops_coming_ends_at_the_limit_too"])),
    ("secrets: in outputs and files", Held(&["secrets_are_stars_and_nothing_moves", "a_secret_beside_a_reference_that_leads_nowhere_is_stars", "who_we_are_is_said_and_never_told", "a_url_that_cannot_be_asked_is_refused_without_showing_a_password"])),
    ("XSS: names, reasons, fields of requests", Held(&["markup_in_what_clients_send_is_text_wherever_it_is_shown", "a_name_or_reason_that_is_markup_is_shown_as_text_everywhere"])),
    ("log injection", Held(&["nobody_forges_a_line", "only_a_plain_id_of_a_client_is_taken_over", "an_actor_is_one_short_line"])),
    ("oversized bodies and heads", Held(&["a_body_without_length_is_bounded_too", "a_head_without_measure_is_refused_and_not_kept", "every_error_is_json_with_a_word_and_says_what_to_do"])),
    ("path tricks", Held(&["paths_lead_nowhere_else", "a_login_leads_nowhere_else"])),
    ("slow clients, many connections", Held(&["clients_that_dawdle_are_let_go_and_hold_nobody_up", "connections_that_say_nothing_take_the_places_there_are_and_no_more"])),
    ("event streams that are not read, too many of them", Held(&["whoever_does_not_read_its_events_holds_up_nobody", "streams_are_bounded", "a_listener_that_lags_is_told_how_much_it_missed"])),
    ("the metrics listener has nothing else", Held(&["the_metrics_listener_has_nothing_else_and_takes_any_host"])),
    ("debug and dumps", NotOurs("there are none")),
];

/// The decisions of other controllers, by the tables of the study, and which test holds each or how we differ.
#[rustfmt::skip]
const DECISIONS: &[(&str, Row)] = &[
    ("E one measurement", Held(&["one_measurement_is_judged_as_in_table_e", "answers_are_judged_as_in_table_e", "argos_conditions_give_argos_verdicts"])),
    ("M one metric", Held(&["one_metric_is_judged_as_in_table_m"])),
    ("R1-R9 several metrics", Held(&["several_metrics_are_judged_as_in_table_r"])),
    ("R11 R15 which metrics are dry", Held(&["patterns_hit_whole_names"])),
    ("R12-R14 a name twice, an argument without value, one that nobody declares", Held(&["broken_files_are_answered_as_written_down"])),
    ("T runs told to end", Held(&["runs_told_to_end_are_terminated_as_in_table_t", "an_abort_in_mid_run_is_on_record_as_terminated_with_its_counts"])),
    ("V1-V8 what is refused, V8 among it", Held(&["broken_files_are_answered_as_written_down", "what_can_give_no_verdict_is_refused_and_the_words_help"])),
    ("C1", Held(&["c1_a_successful_step_goes_on"])),
    ("C2", Held(&["c2_a_failed_or_erroneous_run_aborts_wherever_it_runs"])),
    ("C2a weight stays until stable can bear it", Held(&["a_breached_guard_waits_for_capacity_too", "a_ramp_begins_when_the_wait_for_capacity_is_over"])),
    ("C3", Held(&["c3_an_inconclusive_step_waits_and_promote_does_not_repeat_it"])),
    ("C4", Held(&["c4_an_inconclusive_run_beside_the_steps_waits_and_begins_anew_on_resume"])),
    ("C6 a run that ends early leaves steps unwatched", Held(&["c6_a_run_beside_the_steps_that_ends_well_leaves_no_later_step_unwatched"])),
    ("C7", Held(&["c7_a_pause_by_hand_stops_no_judge"])),
    ("C8 a hold's clock goes on while it is paused by hand", Held(&["a_manual_pause_stops_the_clock_and_a_restart_does_not_start_it_again"])),
    ("C9 a restart within a hold", Held(&["a_restart_within_a_hold_leaves_what_was_left_of_it"])),
    ("C10 a newer version", Held(&["a_newer_wish_supersedes_and_starts_at_step_one", "c10_a_newer_version_is_not_judged_by_what_the_former_did"])),
    ("C11 edited steps", Held(&["editing_steps_ahead_carries_on_and_editing_the_past_starts_over"])),
    ("C13 retry", Held(&["an_aborted_version_is_not_tried_again_until_retry_or_another_revision"])),
    ("C14 C15 promote, in full too", Held(&["a_pause_without_end_waits_for_a_person_and_promote_or_resume_goes_on", "promote_full_skips_all_and_an_aborted_version_needs_force", "c15_promote_full_asks_no_judge_and_leaves_the_run_terminated"])),
    ("C16 before the first weight", Held(&["before_the_first_weight_the_canary_has_none"])),
    ("C17", Held(&["c17_nothing_is_judged_beside_the_steps_before_the_starting_step"])),
    ("C18 the deadline", Held(&["a_deadline_counts_unpaused_time_only"])),
    ("C20 blue-green switches back", Held(&["blue_green_switches_by_itself_after_its_seconds_and_a_broken_version_switches_back", "blue_green_can_be_aborted_before_and_after_the_switch"])),
    ("F1 F17 a tick late, start over", NotOurs("there are no ticks: a verdict holds at once; a newer version starts over as in C10")),
    ("F3 F5-F9 F14-F16 F18 weights, thresholds, ranges, alerts", Held(&["manifests_become_what_is_written_down", "what_is_imported_can_be_rehearsed"])),
    ("F10 F11 no value, no provider", NotOurs("no data waits, and an outage is an error with its own patience: both are told apart from a failure")),
    ("F12 F13 answers of webhooks", Held(&["a_rollout_waits_for_its_gates_and_says_so_and_goes_on_when_they_do", "a_gate_that_says_stop_aborts_and_one_nobody_reaches_is_told_in_why_and_lets_promote_through"])),
];

#[test]
fn each_row_names_tests_that_exist_or_says_why_there_are_none() {
    let functions: Vec<String> = ["src", "tests"]
        .iter()
        .flat_map(|folder| source::sources(folder))
        .flat_map(|source| source.functions().into_iter().map(|(name, ..)| name).collect::<Vec<_>>())
        .collect();
    let mut breaches = Vec::new();
    for (row, behind) in ROWS.iter().chain(ADMIN).chain(DECISIONS) {
        match behind {
            Held(tests) => {
                let absent = tests.iter().filter(|test| !functions.iter().any(|known| known == *test));
                breaches.extend(absent.map(|test| format!("{row}: there is no test {test}")));
            }
            NotOurs(why) => assert!(!why.is_empty(), "{row}"),
        }
    }
    super::assert_kept(&breaches);
}
