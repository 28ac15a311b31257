package manager_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// The part of a message that a manager does not know is neither stored nor told to others: no limit holds for it.
func TestUnknownFieldsAreDropped(t *testing.T) {
	_, p := startParty(t)
	told := []byte("what nobody knows")
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), told)
	with := func(message proto.Message) { message.ProtoReflect().SetUnknown(unknown) }
	known := func(what string, message proto.Message) {
		t.Helper()
		encoded, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(encoded, told) {
			t.Errorf("%s is told with what nobody knows: %v", what, message)
		}
	}
	p.agent(t, "a1", "node-1", "")
	sender := p.join(t, "s", "node-1", send)
	p.join(t, "m1", "node-1", receiveToo)
	spec := file(megabyte)
	spec.Keep = durationpb.New(1)
	with(spec)
	with(spec.GetKeep())
	known("a delivery", p.get(t, p.create(t, sender, spec)))

	registration := &agentv1.Registration{Node: "node-2", Addresses: []string{"a2.example:7410"}, Capacity: &agentv1.Capacity{UplinkBytesPerSecond: 1}}
	with(registration.GetCapacity())
	agents := agentv1.NewAgentServiceClient(managertest.Dial(t, p.enroll("a2")))
	control, err := agents.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := control.Send(&agentv1.ControlRequest{Message: &agentv1.ControlRequest_Registration{Registration: registration}}); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Recv(); err != nil {
		t.Fatal(err)
	}
	list, err := agentv1.NewAgentServiceClient(p.link).ListAgents(t.Context(), &agentv1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 2 {
		t.Fatalf("%d agents: %v", len(list.GetAgents()), err)
	}
	known("a list of agents", list)
}
