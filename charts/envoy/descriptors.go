package envoy

import (
	"fmt"
	"slices"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Descriptors returns the descriptors that Envoy transcodes by: those of the contracts, in which each method that has
// a path of its own can be called by its full name, too. Envoy itself gives that only to those that have none.
func Descriptors(contracts []byte) ([]byte, error) {
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(contracts, set); err != nil {
		return nil, fmt.Errorf("parse descriptors: %w", err)
	}
	for _, file := range set.GetFile() {
		file.SourceCodeInfo = nil
		for _, service := range file.GetService() {
			name := file.GetPackage() + "." + service.GetName()
			if !slices.Contains(Services, name) {
				continue
			}
			for _, method := range service.GetMethod() {
				addFullName(method, "/"+name+"/"+method.GetName())
			}
		}
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}

func addFullName(method *descriptorpb.MethodDescriptorProto, path string) {
	rule, is := proto.GetExtension(method.GetOptions(), annotations.E_Http).(*annotations.HttpRule)
	if !is || rule == nil || slices.ContainsFunc(rule.GetAdditionalBindings(), func(b *annotations.HttpRule) bool { return b.GetPost() == path }) {
		return
	}
	rule.AdditionalBindings = append(rule.AdditionalBindings, &annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: path}, Body: "*"})
	proto.SetExtension(method.GetOptions(), annotations.E_Http, rule)
}
