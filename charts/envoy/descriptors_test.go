package envoy

import (
	"bytes"
	"os"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Every method that has a path also has its full name, once, however often the descriptors are made. The details of
// errors are there, with all the types that they use.
func TestDescriptors(t *testing.T) {
	kept, err := os.ReadFile("../groupcast/files/groupcast.binpb")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Descriptors(kept)
	if err != nil || !bytes.Equal(kept, again) {
		t.Errorf("%v; made again they are the same: %v", err, bytes.Equal(kept, again))
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(kept, set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.FindDescriptorByName("google.rpc.ErrorInfo"); err != nil {
		t.Error(err)
	}
	for _, name := range Services {
		found, err := files.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		methods := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			rule, is := proto.GetExtension(methods.Get(i).Options(), annotations.E_Http).(*annotations.HttpRule)
			if !is || rule == nil {
				continue // Envoy itself gives it its full name
			}
			if full := rule.GetAdditionalBindings(); len(full) != 1 || full[0].GetPost() != "/"+name+"/"+string(methods.Get(i).Name()) {
				t.Errorf("%s: %v", methods.Get(i).FullName(), full)
			}
		}
	}
	if _, err := Descriptors([]byte("noise")); err == nil {
		t.Error("noise is taken for descriptors")
	}
}
