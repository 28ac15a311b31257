package envoy

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Files returns the configuration as the files that Envoy reads, by name, for the contracts with these descriptors. The same always give the
// same bytes.
func Files(o Options, contracts []byte) (map[string][]byte, error) {
	var err error
	if o.services, err = services(contracts); err != nil {
		return nil, err
	}
	messages := map[string]proto.Message{"envoy.json": bootstrap(o)}
	for name, secret := range Secrets(o) {
		messages[name+".json"] = secret
	}
	files := make(map[string][]byte)
	for name, message := range messages {
		text, err := encode(message)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		files[name] = text
	}
	return files, nil
}

// encode writes JSON with sorted keys: protojson varies its white space on purpose.
func encode(message proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err = encoder.Encode(tree)
	return out.Bytes(), err
}
