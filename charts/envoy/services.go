package envoy

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// gatherService is the service that the gatherer itself serves.
const gatherService = "groupcast.gather.v1.GatherService"

// Services are the services of the public API: others cannot be called with JSON.
var Services = []string{
	"groupcast.group.v1.GroupService", "groupcast.group.v1.SessionService", "groupcast.group.v1.DeliveryService",
	"groupcast.group.v1.ManagerService", "groupcast.agent.v1.AgentService",
	"groupcast.gather.v1.GathererService", gatherService, "groupcast.replica.v1.ReplicationService", "groupcast.replica.v1.ReplicatorService",
}

// service is what there is to call in gRPC: methods with one answer, and streams.
type service struct {
	name             string
	methods, streams []string
}

// builtin are the services that all servers have beside those of the contracts: whether they are well, and what there is to call.
var builtin = []service{
	{name: "grpc.health.v1.Health", methods: []string{"Check", "List"}, streams: []string{"Watch"}},
	{name: "grpc.reflection.v1.ServerReflection", streams: []string{"ServerReflectionInfo"}},
	{name: "grpc.reflection.v1alpha.ServerReflection", streams: []string{"ServerReflectionInfo"}},
}

// services returns those of the contracts, and those that are built in.
func services(contracts []byte) ([]service, error) {
	set, err := parse(contracts)
	if err != nil {
		return nil, err
	}
	found := slices.Clone(builtin)
	for _, file := range set.GetFile() {
		for _, has := range file.GetService() {
			s := service{name: file.GetPackage() + "." + has.GetName()}
			for _, method := range has.GetMethod() {
				if method.GetClientStreaming() || method.GetServerStreaming() {
					s.streams = append(s.streams, method.GetName())
				} else {
					s.methods = append(s.methods, method.GetName())
				}
			}
			found = append(found, s)
		}
	}
	return found, nil
}

func parse(contracts []byte) (*descriptorpb.FileDescriptorSet, error) {
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(contracts, set); err != nil {
		return nil, fmt.Errorf("parse descriptors: %w", err)
	}
	return set, nil
}
