// Package simnet is a network in memory, for tests of whole services within a
// testing/synctest bubble: hosts, links with latency and rate, and faults.
//
//	synctest.Test(t, func(t *testing.T) {
//		network := simnet.New(seed)
//		network.ShapeAll(simnet.Shape{Latency: 10 * time.Millisecond, Rate: 1 << 20})
//		port, _ := network.Host("server").Listen(":7000")
//		go func() {
//			conn, _ := port.Accept()
//			_, _ = io.Copy(conn, conn)
//			_ = conn.Close()
//		}()
//		conn, _ := network.Host("client").Dial(t.Context(), "tcp", "server:7000")
//		_, _ = conn.Write([]byte("hello"))
//		network.Cut("client", "server") // both ends wait, and are told nothing
//		time.AfterFunc(time.Minute, network.HealAll)
//		_, _ = io.ReadFull(conn, make([]byte, 5)) // a minute later, at once
//		_ = conn.Close()
//	})
//
// A connection behaves like TCP as a program sees it: bounded buffers, so that Write waits for a
// peer that does not read; half-close; deadlines; resets for data that nobody will read. Bytes on a
// cut link wait, and go on when it heals. There is no congestion control and no keep-alive, and a
// kernel never loses patience with a silent peer.
// patience with a silent peer.
//
// The network acts a nanosecond after each instant, when all programs of the bubble wait, in an
// order of its own. So the same seed and the same program give the same Hash, provided that the
// program itself leaves nothing to chance. It also means that synctest.Wait alone moves no byte:
// sleep a microsecond, or the latency.
package simnet
