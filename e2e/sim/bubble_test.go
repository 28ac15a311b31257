package sim

import (
	_ "unsafe" // for go:linkname
)

// etcdNever is a channel of etcd's client that is never closed, made when the process
// starts. Whoever waits for a channel from outside its bubble has virtual time stand
// still; for nil, one waits as long.
//
//go:linkname etcdNever go.etcd.io/etcd/client/v3.valCtxCh
var etcdNever chan struct{}

func init() { etcdNever = nil }
