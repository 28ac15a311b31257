// Package envoy tests what the chart installs in front of the managers: the real Envoy, with the chart's own
// configuration, between real clients and real managers, on loopback. `make envoy` fetches Envoy and runs it.
package envoy
