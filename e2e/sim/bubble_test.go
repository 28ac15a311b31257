package sim

import (
	_ "unsafe" // for go:linkname
)

// etcdNever is a channel of etcd's client that is never closed, and is made when the process
// starts. While a goroutine waits for a channel from outside its bubble, virtual time stands still;
// waiting for nil takes as long, and does not do that.
//
//go:linkname etcdNever go.etcd.io/etcd/client/v3.valCtxCh
var etcdNever chan struct{}

func init() { etcdNever = nil }
