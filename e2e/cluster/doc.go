// Package cluster proves on a real Kubernetes cluster that the chart works: kind, the images of this
// commit, the real helm, the real Envoy, driven from outside through Envoy and from pods.
//
// Its tests need a Docker engine, kind, helm and kubectl, so they are behind the build tag
// cluster: `make e2e`. They go in the order of their names, since each stands on what the last has left: a cluster is dear.
package cluster
