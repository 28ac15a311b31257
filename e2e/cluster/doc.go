// Package cluster proves on a real Kubernetes cluster that the chart works: kind, the images of this
// commit, the real helm, the real Envoy, driven from outside through Envoy and from pods.
//
// Its tests need a Docker engine, kind, helm and kubectl, so all that do are behind the build tag
// cluster: `make e2e`. They go in the order in which they
// stand in their files, since most stand on what the first has installed: a cluster is dear.
package cluster
