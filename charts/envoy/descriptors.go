package envoy

import (
	"slices"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Descriptors returns the descriptors by which Envoy transcodes: those of the contracts, changed so that each method with
// a path of its own can also be called by its full name, and those of the details of errors. By itself Envoy gives full
// names only to methods without a path, and answers an error with an empty body if it does not know one of its details.
func Descriptors(contracts []byte) ([]byte, error) {
	set, err := parse(contracts)
	if err != nil {
		return nil, err
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
	addDetails(set)
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}

// addDetails adds the details of errors, and the types that they use.
func addDetails(set *descriptorpb.FileDescriptorSet) {
	for _, file := range []protoreflect.FileDescriptor{durationpb.File_google_protobuf_duration_proto, errdetails.File_google_rpc_error_details_proto} {
		if !slices.ContainsFunc(set.GetFile(), func(has *descriptorpb.FileDescriptorProto) bool { return has.GetName() == file.Path() }) {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
		}
	}
}

func addFullName(method *descriptorpb.MethodDescriptorProto, path string) {
	rule, is := proto.GetExtension(method.GetOptions(), annotations.E_Http).(*annotations.HttpRule)
	if !is || rule == nil || slices.ContainsFunc(rule.GetAdditionalBindings(), func(b *annotations.HttpRule) bool { return b.GetPost() == path }) {
		return
	}
	rule.AdditionalBindings = append(rule.AdditionalBindings, &annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: path}, Body: "*"})
	proto.SetExtension(method.GetOptions(), annotations.E_Http, rule)
}
