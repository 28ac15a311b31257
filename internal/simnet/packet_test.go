package simnet_test

import (
	"testing"
	"testing/synctest"

	"github.com/groupcast/groupcast/internal/simnet"
)

func TestGroupsReceiveDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		var members []*simnet.PacketConn
		for _, name := range []string{"a", "b", "c"} {
			member, err := network.Host(name).ListenPacket(":9")
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close()
			member.Join("group")
			members = append(members, member)
		}
		if _, err := members[0].WriteTo([]byte("all"), simnet.Addr{Proto: "udp", Host: "group", Port: 9}); err != nil {
			t.Fatal(err)
		}
		for _, member := range members {
			got := make([]byte, 10)
			n, from, err := member.ReadFrom(got)
			if err != nil || string(got[:n]) != "all" || from.String() != "a:9" {
				t.Errorf("received %q from %v, %v", got[:n], from, err)
			}
		}
	})
}
