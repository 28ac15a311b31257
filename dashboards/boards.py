"""The dashboards: what is shown of each part, and of which metrics."""

from panels import Query, board, lines, number


def together(gauge):
    """What all managers of a release tell alike, over all releases that are chosen."""
    return f"sum(max by (namespace, app_kubernetes_io_instance) ({gauge}))"


def ours(query):
    """What of a query, by targets, is of Groupcast: others have metrics of such names, and jobs that are called so, too. Of
    groupcast-standalone, which is scraped in all jobs, that is the process in the managers' job."""
    return (f"({query} and on (job, instance) groupcast_build_info{{HERE}}"
            ' unless on (job, instance) groupcast_build_info{service="standalone", job!="manager", HERE})')


def overview():
    """Is it well, and what does it carry?"""
    return board(
        "groupcast-overview", "Groupcast / Overview", "Whether all parts are there, and how much they carry.",
        ("Parts", [
            number("Managers", "Managers that answer.", "short", 'count(groupcast_build_info{job="manager", HERE})'),
            number("Managers missed", "Managers that were there and are not.", "short", together("groupcast_manager_managers_offline{HERE}")),
            number("Leader", "Managers that lead: one, but for the moments in which another takes over.", "short",
                   "sum(groupcast_manager_leading{HERE})"),
            number("Agents online", "Agents that report to the leader.", "short", together("groupcast_manager_agents_online{HERE}"), span=3),
            number("Agents silent", "Agents that were there and report no more.", "short",
                   together("groupcast_manager_agents_offline{HERE}"), span=3),
            number("Members", "Members that are joined, over all groups.", "short", together("groupcast_manager_members{HERE}"), span=3),
            number("Groups", "Groups that exist.", "short", together("groupcast_manager_groups{HERE}"), span=3),
        ]),
        ("Work", [
            lines("Deliveries", "Deliveries that run.", "short", Query(together("groupcast_manager_deliveries_running{HERE}"), "running")),
            lines("Bytes between agents and members", "What agents take from parents and send to children.", "Bps",
                  Query("sum(rate(groupcast_agent_received_bytes_total{HERE}[$__rate_interval]))", "received"),
                  Query("sum(rate(groupcast_agent_datagrams_received_bytes_total{HERE}[$__rate_interval]))", "received in datagrams"),
                  Query("sum(rate(groupcast_agent_sent_bytes_total{HERE}[$__rate_interval]))", "sent"),
                  Query("sum(rate(groupcast_agent_datagrams_sent_bytes_total{HERE}[$__rate_interval]))", "sent in datagrams")),
            lines("Gathered", "What clients upload.", "Bps",
                  Query("sum(rate(groupcast_gatherer_received_bytes_total{HERE}[$__rate_interval]))", "received"),
                  Query("sum(groupcast_gatherer_target_bytes_per_second{HERE})", "targets")),
            lines("Replicated", "What lands at replicas.", "Bps",
                  Query("sum(rate(groupcast_replicator_received_bytes_total{HERE}[$__rate_interval]))", "received")),
            lines("Processor", "What all parts use.", "short",
                  Query("sum by (job) " + ours("rate(process_cpu_seconds_total{HERE}[$__rate_interval])"), "{{job}}")),
            lines("Memory", "What all parts hold resident.", "bytes",
                  Query("sum by (job) " + ours("process_resident_memory_bytes{HERE}"), "{{job}}")),
        ]))


def deliveries():
    """What becomes of deliveries, and how their trees change."""
    return board(
        "groupcast-deliveries", "Groupcast / Deliveries and trees", "How deliveries end, and why their trees change.",
        ("Deliveries", [
            lines("Running", "Deliveries that run, over all groups.", "short",
                  Query(together("groupcast_manager_deliveries_running{HERE}"), "running")),
            lines("Ended", "Deliveries that ended, by state.", "ops",
                  Query("sum by (state) (rate(groupcast_manager_deliveries_ended_total{HERE}[$__rate_interval]))", "{{state}}")),
            lines("Receipts", "Members at which a delivery ended, by state and reason.", "ops",
                  Query("sum by (state, reason) (rate(groupcast_manager_receipts_total{HERE}[$__rate_interval]))",
                        "{{state}} {{reason}}")),
        ]),
        ("Throughput", [
            lines("Reception", "What the slowest member of a delivery that ended got: median and 5th percentile.", "Bps",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_manager_delivery_reception_bytes_per_second_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.05, "5 %"))]),
            lines("Effective throughput", "That over the sender's rate: 1 where nobody holds the sender up. Median and 5th percentile.", "percentunit",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_manager_delivery_effective_throughput_ratio_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.05, "5 %"))]),
            lines("Links", "What the links of trees carried, of deliveries that ended: median and 5th percentile.", "Bps",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_manager_delivery_link_bytes_per_second_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.05, "5 %"))]),
        ]),
        ("Trees", [
            lines("Changes", "Trees made or changed, by cause.", "ops",
                  Query("sum by (cause) (rate(groupcast_manager_tree_changes_total{HERE}[$__rate_interval]))", "{{cause}}")),
            lines("Clusters", "Clusters of agents, given by labels or found by measurement.", "short",
                  Query(together("groupcast_manager_clusters{HERE}"), "clusters")),
            lines("Measured round trips", "Pairs of agents that have measured each other.", "short",
                  Query(together("groupcast_manager_round_trips{HERE}"), "pairs")),
        ]))


def agents():
    """What each session agent caches, carries and gives up."""
    return board(
        "groupcast-agents", "Groupcast / Session agents", "What each agent caches and carries, and how its links do.",
        ("Bytes", [
            lines("Received", "What each agent takes from parents.", "Bps",
                  Query("sum by (node) (rate(groupcast_agent_received_bytes_total{HERE}[$__rate_interval]))", "{{node}}"),
                  Query("sum by (node) (rate(groupcast_agent_datagrams_received_bytes_total{HERE}[$__rate_interval]))", "{{node}}, datagrams")),
            lines("Sent", "What each agent sends to children.", "Bps",
                  Query("sum by (node) (rate(groupcast_agent_sent_bytes_total{HERE}[$__rate_interval]))", "{{node}}"),
                  Query("sum by (node) (rate(groupcast_agent_datagrams_sent_bytes_total{HERE}[$__rate_interval]))", "{{node}}, datagrams")),
            lines("Copies made", "Bytes sent for each byte received: what duplicating near the members saves the links above.", "short",
                  Query("sum by (node) (rate(groupcast_agent_sent_bytes_total{HERE}[$__rate_interval]))"
                        " / (sum by (node) (rate(groupcast_agent_received_bytes_total{HERE}[$__rate_interval])) > 0)", "{{node}}")),
        ]),
        ("Cache", [
            lines("Cache in use", "What is taken or promised of each cache: credit is given for the rest alone.", "percentunit",
                  Query("sum by (node) (groupcast_agent_cache_reserved_bytes{HERE})"
                        " / sum by (node) (groupcast_agent_cache_limit_bytes{HERE})", "{{node}}")),
            lines("Cached", "What each cache holds.", "bytes", Query("sum by (node) (groupcast_agent_cache_held_bytes{HERE})", "{{node}}")),
            lines("Credit", "What parents may send to each agent that has not come yet: none for long is a cache that waits for slow children.", "bytes",
                  Query("sum by (node) (groupcast_agent_credit_bytes{HERE})", "{{node}}")),
            lines("Cache of a delivery", "The most that an agent held of a delivery that ended, over what was sent: median and 95th percentile.", "percentunit",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_manager_delivery_cache_ratio_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.95, "95 %"))]),
            lines("Restarts", "Deliveries begun again from another offset, and children given up as too slow.", "ops",
                  Query("sum by (cause) (rate(groupcast_agent_restarts_total{HERE}[$__rate_interval]))", "restarts: {{cause}}"),
                  Query("sum(rate(groupcast_agent_evicted_children_total{HERE}[$__rate_interval]))", "children given up")),
        ]),
        ("Links", [
            lines("Links", "Links to parents and children.", "short", Query("sum by (node) (groupcast_agent_links{HERE})", "{{node}}")),
            lines("Stripes", "Connections that the links of each agent to its children are to have: one on short paths.", "short",
                  Query("sum by (node) (groupcast_agent_stripes{HERE})", "{{node}}")),
            lines("Choices of stripes", "How often the number of a link's connections was changed, by reason.", "ops",
                  Query("sum by (reason) (rate(groupcast_agent_stripe_choices_total{HERE}[$__rate_interval]))", "{{reason}}")),
            lines("Refused", "Links refused or broken for cause.", "ops",
                  Query("sum by (reason) (rate(groupcast_agent_refused_links_total{HERE}[$__rate_interval]))", "{{reason}}")),
        ]),
        ("Datagrams", [
            lines("Datagrams", "Streams in datagrams: received, recovered from parity, sent, and held back by a link's rate.", "pps",
                  Query("sum(rate(groupcast_agent_datagrams_received_total{HERE}[$__rate_interval]))", "received"),
                  Query("sum(rate(groupcast_agent_datagrams_recovered_total{HERE}[$__rate_interval]))", "recovered"),
                  Query("sum(rate(groupcast_agent_datagrams_sent_total{HERE}[$__rate_interval]))", "sent"),
                  Query("sum(rate(groupcast_agent_datagrams_held_total{HERE}[$__rate_interval]))", "held"), span=12),
            lines("Stopped links", "Links stopped for a while, for too much was lost for too long; datagrams that belong to no link.", "ops",
                  Query("sum(rate(groupcast_agent_circuit_breaker_trips_total{HERE}[$__rate_interval]))", "stopped"),
                  Query("sum(rate(groupcast_agent_datagrams_refused_total{HERE}[$__rate_interval]))", "refused"), span=12),
        ]))


def gathering():
    """Whether clients get what the policy says."""
    return board(
        "groupcast-gathering", "Groupcast / Gathering", "What clients get beside what they should, and what holds them up.",
        ("Targets", [
            lines("Got", "What clients got in the controller's last round, by priority.", "Bps",
                  Query("sum by (priority) (groupcast_gatherer_received_bytes_per_second{HERE})", "priority {{priority}}"), span=6),
            lines("Should get", "What clients that have something to send should get, by priority.", "Bps",
                  Query("sum by (priority) (groupcast_gatherer_target_bytes_per_second{HERE})", "priority {{priority}}"), span=6),
            lines("Below target", "Clients with something to send that got less than 95 % of their target, by priority.", "short",
                  Query("sum by (priority) (groupcast_gatherer_clients_below_target{HERE})", "priority {{priority}}"), span=6),
            lines("Fairness", "Jain's index over clients with something to send, of what they got and of the part of their targets "
                  "that they got: 1 is the same for all. Of several gatherers the least.", "short",
                  Query("min by (of) (groupcast_gatherer_fairness{HERE})", "{{of}}"), span=6),
        ]),
        ("Control", [
            lines("Windows", "The sum of the windows shown, by priority, and what they are cut from.", "bytes",
                  Query("sum by (priority) (groupcast_gatherer_window_bytes{HERE})", "priority {{priority}}"),
                  Query("sum(groupcast_gatherer_budget_bytes{HERE})", "all")),
            lines("Connections", "Data connections, by the state that the controller has them in.", "short",
                  Query("sum by (state) (groupcast_gatherer_connections{HERE})", "{{state}}")),
            lines("Round trip", "Median and 99th percentile of the data connections' round trips.", "s",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_gatherer_round_trip_seconds_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.99, "99 %"))]),
            lines("Link", "What the link is thought to carry for clients, and what else comes over it.", "Bps",
                  Query("sum(groupcast_gatherer_available_bytes_per_second{HERE})", "available"),
                  Query("sum(groupcast_gatherer_other_bytes_per_second{HERE})", "others")),
            lines("Queue", "How long what comes waits before the link that all share. Of several gatherers the longest.", "s",
                  Query("max(groupcast_gatherer_queue_seconds{HERE})", "waits")),
            lines("Clients", "Clients that are attached, by where they are held up, and those told to pause.", "short",
                  Query("sum by (bottleneck) (groupcast_gatherer_clients{HERE})", "{{bottleneck}}"),
                  Query("sum(groupcast_gatherer_clients_paused{HERE})", "paused")),
            lines("Round of the controller", "How long a round took, 99th percentile: there are two in a second.", "s",
                  Query("histogram_quantile(0.99, sum by (le) (rate(groupcast_gatherer_round_seconds_bucket{HERE}[$__rate_interval])))",
                        "99 %")),
        ]),
        ("Uploads", [
            lines("Establishment", "Median and 95th percentile of how long data connections took until they were let in.", "s",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_gatherer_establishment_seconds_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.95, "95 %"))]),
            lines("Upload", "Median and 95th percentile of how long uploads took that are finished.", "s",
                  *[Query(f"histogram_quantile({q}, sum by (le) (rate(groupcast_gatherer_upload_seconds_bucket"
                          "{HERE}[$__rate_interval])))", f"{name}") for q, name in ((0.5, "median"), (0.95, "95 %"))]),
            lines("Out of order", "The part of segments that came before others that were sent before them: after a loss, mostly.", "percentunit",
                  Query("sum(rate(groupcast_gatherer_out_of_order_segments_total{HERE}[$__rate_interval]))"
                        " / (sum(rate(groupcast_gatherer_segments_total{HERE}[$__rate_interval])) > 0)", "of all")),
            lines("Refused", "Data connections that were not opened, by reason.", "ops",
                  Query("sum by (reason) (rate(groupcast_gatherer_refused_links_total{HERE}[$__rate_interval]))", "{{reason}}")),
        ]))


def replications():
    """What SOMA's senders send, and what they are asked to send again."""
    rate = "sum by (node) (rate(groupcast_replicator_%s_total{HERE}[$__rate_interval]))"
    return board(
        "groupcast-replications", "Groupcast / Replications", "Windows of senders, what they send again, and what lands at replicas.",
        ("Sending", [
            lines("Under way", "Replications under way at each replicator, by what it does in them.", "short",
                  Query("sum by (duty) (groupcast_replicator_tasks{HERE})", "{{duty}}")),
            lines("Window", "How many packets may be on their way unanswered, by sender and LAN.", "short",
                  Query("sum by (node, lan) (groupcast_replicator_window_packets{HERE})", "{{node}} {{lan}}")),
            lines("Packets", "Packets with data that were sent to LANs.", "pps", Query(rate % "sent_packets", "{{node}}")),
            lines("Packets at once", "1 where the kernel takes many packets at once of every sender (segment), and gives many to every receiver (merge).",
                  "short", Query("min by (kind) (groupcast_replicator_offload{HERE})", "{{kind}}")),
        ]),
        ("Loss", [
            lines("Sent again", "Packets sent again, or with parity, for each packet sent.", "percentunit",
                  Query((rate % "repair_packets") + " / (" + (rate % "sent_packets") + " > 0)", "{{node}}")),
            lines("Asked for", "Packets that members said they lacked (NACKs), and answers of members that were taken.", "pps",
                  Query("sum(rate(groupcast_replicator_wanted_packets_total{HERE}[$__rate_interval]))", "lacking"),
                  Query("sum(rate(groupcast_replicator_reports_total{HERE}[$__rate_interval]))", "answers"),
                  Query("sum(rate(groupcast_replicator_polls_total{HERE}[$__rate_interval]))", "questions"),
                  Query("sum(rate(groupcast_replicator_timeouts_total{HERE}[$__rate_interval]))", "members not waited for any more")),
            lines("Stopped", "Senders stopped for a while, for nothing was answered or too much was lost.", "ops",
                  Query("sum(rate(groupcast_replicator_circuit_breaker_trips_total{HERE}[$__rate_interval]))", "stopped")),
        ]),
        ("Replicas", [
            lines("Received", "Bytes that came to each replica over the network.", "Bps", Query(rate % "received_bytes", "{{node}}")),
            lines("Ended", "Replicas that ended, by state and reason.", "ops",
                  Query("sum by (state, reason) (rate(groupcast_replicator_replicas_total{HERE}[$__rate_interval]))", "{{state}} {{reason}}")),
            lines("By the managers", "Replications that began and ended, and replicas that ended otherwise than complete, as the managers decided.", "ops",
                  Query("sum(rate(groupcast_manager_replications_started_total{HERE}[$__rate_interval]))", "began"),
                  Query("sum by (state) (rate(groupcast_manager_replications_ended_total{HERE}[$__rate_interval]))", "ended {{state}}"),
                  Query('sum by (state, reason) (rate(groupcast_manager_replicas_ended_total{HERE, state!="complete"}[$__rate_interval]))',
                        "replica {{state}} {{reason}}")),
            lines("Repaired here", "Blocks computed from parity, blocks written ahead of their turn, packets that were refused.", "ops",
                  Query("sum(rate(groupcast_replicator_rebuilt_blocks_total{HERE}[$__rate_interval]))", "from parity"),
                  Query("sum(rate(groupcast_replicator_spilled_blocks_total{HERE}[$__rate_interval]))", "ahead"),
                  Query("sum(rate(groupcast_replicator_refused_packets_total{HERE}[$__rate_interval]))", "refused packets")),
        ]))


def control():
    """Managers, and the way to them through Envoy."""
    return board(
        "groupcast-control", "Groupcast / Control plane", "Who leads, how calls to the managers do, and what comes through Envoy.",
        ("Managers", [
            lines("Leader", "Which manager leads, and whether it takes itself for cut off since most fell silent at once.", "short",
                  Query("max by (pod) (groupcast_manager_leading{HERE})", "{{pod}}"),
                  Query("max by (pod) (groupcast_manager_cut_off{HERE})", "{{pod}}: cut off")),
            lines("Here", "Managers that are here, and those that are missed.", "short",
                  Query(together("groupcast_manager_managers_online{HERE}"), "here"),
                  Query(together("groupcast_manager_managers_offline{HERE}"), "missed")),
            lines("Term", "Grows with every change of the leader.", "short", Query("max(groupcast_manager_term{HERE})", "term")),
            lines("State", "The revision of the state that each manager sees: together, but for moments.", "short",
                  Query("max by (pod) (groupcast_manager_revision{HERE})", "{{pod}}")),
            lines("Certificates", "How long the managers' certificates are valid yet: those of the built-in CA are renewed at half of an hour.", "s",
                  Query("min by (pod) (groupcast_manager_certificate_expiry_timestamp_seconds{HERE}) - time()", "{{pod}}")),
        ]),
        ("Embedded store", [
            lines("Changes", "What the managers' stores agree on, and what they could not. An external etcd is watched by its own metrics.", "ops",
                  Query("max" + ours("rate(etcd_server_proposals_committed_total{HERE}[$__rate_interval])"), "agreed on"),
                  Query("sum" + ours("rate(etcd_server_proposals_failed_total{HERE}[$__rate_interval])"), "failed"), span=6),
            lines("Leads the store", "In which manager the store's leader is.", "short",
                  Query("max by (pod) " + ours("etcd_server_is_leader{HERE}"), "{{pod}}"), span=6),
            lines("Synced", "99th percentile of the time that each disk takes to have a change for good: all that managers write waits for it.", "s",
                  Query("histogram_quantile(0.99, sum by (le, pod) " + ours("rate(etcd_disk_wal_fsync_duration_seconds_bucket{HERE}[$__rate_interval])") + ")",
                        "{{pod}}"), span=6),
            lines("Size", "What each store takes of its disk, and the most that is in use of that.", "bytes",
                  Query("max by (pod) " + ours("etcd_mvcc_db_total_size_in_bytes{HERE}"), "{{pod}}"),
                  Query("max" + ours("etcd_mvcc_db_total_size_in_use_in_bytes{HERE}"), "in use"), span=6),
        ]),
        ("Calls", [
            lines("Calls", "Unary calls, by gRPC code.", "reqps",
                  Query("sum by (code) (rate(groupcast_manager_call_duration_seconds_count{HERE}[$__rate_interval]))", "{{code}}")),
            lines("Duration", "99th percentile of the time that unary calls take, by method.", "s",
                  Query("histogram_quantile(0.99, sum by (le, method) (rate(groupcast_manager_call_duration_seconds_bucket"
                        "{HERE}[$__rate_interval])))", "{{method}}")),
            lines("Streams", "Streams that are open, by method.", "short", Query("sum by (method) (groupcast_manager_streams{HERE})", "{{method}}")),
            lines("Refused", "Calls refused for want of an identity or a permission.", "reqps",
                  Query("sum by (method) (rate(groupcast_manager_refused_calls_total{HERE}[$__rate_interval]))", "{{method}}")),
            lines("No room", "1 where the store, or the manager's disk, has no room, or none for large writes: the manager that leads refuses them then.", "short",
                  Query("max by (pod) (groupcast_manager_read_only{HERE})", "{{pod}}"),
                  Query("max by (pod) (groupcast_manager_large_writes_refused{HERE})", "{{pod}}: large ones")),
            lines("Measurements not believed", "Round trips that were reported and not believed, by reason.", "ops",
                  Query("sum by (reason) (rate(groupcast_manager_round_trips_refused_total{HERE}[$__rate_interval]))", "{{reason}}")),
        ]),
        ("Envoy", [
            lines("Connections", "Connections that are open, by listener.", "short",
                  Query("sum by (envoy_listener_address) (envoy_listener_downstream_cx_active{HERE})", "{{envoy_listener_address}}")),
            lines("HTTP", "Requests with JSON, gRPC-Web and gRPC, by class of the answer.", "reqps",
                  Query('sum by (envoy_response_code_class) (rate(envoy_http_downstream_rq_xx{envoy_http_conn_manager_prefix="http", HERE}'
                        "[$__rate_interval]))", "{{envoy_response_code_class}}xx")),
            lines("Calls by method", "Calls that Envoy passes on as gRPC, by method, and those that did not end well.", "reqps",
                  Query("sum by (grpc_method) (rate(envoy_cluster_grpc_total{HERE}[$__rate_interval]))", "{{grpc_method}}"),
                  Query("clamp_min(sum(rate(envoy_cluster_grpc_total{HERE}[$__rate_interval]))"
                        " - sum(rate(envoy_cluster_grpc_success{HERE}[$__rate_interval])), 0)", "not well")),
            lines("Time by method", "99th percentile of the time that such calls take behind Envoy, by method.", "ms",
                  Query("histogram_quantile(0.99, sum by (le, grpc_method) (rate(envoy_cluster_grpc_upstream_rq_time_bucket"
                        "{HERE}[$__rate_interval])))", "{{grpc_method}}")),
            lines("Managers that answer", "Managers that Envoy finds healthy.", "short",
                  Query('min by (envoy_cluster_name) (envoy_cluster_membership_healthy{envoy_cluster_name=~"managers.*", HERE})', "{{envoy_cluster_name}}")),
        ]))


ALL = [overview, deliveries, agents, gathering, replications, control]
