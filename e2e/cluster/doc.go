// Package cluster proves on a real Kubernetes cluster that the chart works: with kind, the images of
// this commit, the real helm and the real Envoy, driven from outside through Envoy and from pods.
//
// Its tests need a Docker engine, kind, helm and kubectl, so those that do are behind the build tag
// cluster: `make e2e`. They run in the order in which they stand in their files, as most depend on
// what the first has installed: a cluster is expensive.
package cluster
