package envoy

import (
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	"google.golang.org/protobuf/proto"
)

// maxConnections is how many connections Envoy accepts at once, not counting probes and Prometheus. Otherwise, somebody who used
// them up would make the probes fail, and all sessions through Envoy end with its container.
const maxConnections = 10000

// heap is the name of the memory monitor.
const heap = "envoy.resource_monitors.fixed_heap"

// overload bounds what callers can make Envoy keep. The answers to callers that do not read wait in Envoy's memory, and if the kernel kills Envoy
// for that, the sessions of all others end, too. First free memory goes back to the system, then the streams that keep the most are ended; then
// requests are refused, and at last connections. Sessions that are passed through keep little, and go on.
func (o Options) overload() *overloadv3.OverloadManager {
	return &overloadv3.OverloadManager{
		RefreshInterval: seconds(0.1),
		ResourceMonitors: []*overloadv3.ResourceMonitor{
			monitor("envoy.resource_monitors.global_downstream_max_connections", &downstreamv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: maxConnections}),
			monitor(heap, &heapv3.FixedHeapConfig{MaxHeapSizeBytes: o.Heap}),
		},
		Actions: []*overloadv3.OverloadAction{
			action("shrink_heap", 0.5, 0.5),
			action("reset_high_memory_stream", 0.6, 0.8),
			action("stop_accepting_requests", 0.7, 0.7),
			action("reject_incoming_connections", 0.95, 0.95),
		},
		BufferFactoryConfig: &overloadv3.BufferFactoryConfig{MinimumAccountToTrackPowerOfTwo: 20}, // from 1 MiB on
	}
}

func monitor(name string, config proto.Message) *overloadv3.ResourceMonitor {
	return &overloadv3.ResourceMonitor{Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: packed(config)}}
}

// action begins to act from a part of the heap on, and acts fully from another on.
func action(name string, from, wholly float64) *overloadv3.OverloadAction {
	trigger := &overloadv3.Trigger{Name: heap}
	if from == wholly {
		trigger.TriggerOneof = &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: from}}
	} else {
		trigger.TriggerOneof = &overloadv3.Trigger_Scaled{Scaled: &overloadv3.ScaledTrigger{ScalingThreshold: from, SaturationThreshold: wholly}}
	}
	return &overloadv3.OverloadAction{Name: "envoy.overload_actions." + name, Triggers: []*overloadv3.Trigger{trigger}}
}
