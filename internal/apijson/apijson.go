// Package apijson writes messages as JSON in the form of the API.
package apijson

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Marshal returns a message as the API's JSON, with the same white space each time: protojson varies that on purpose.
func Marshal(message proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var compact json.RawMessage = text
	return json.Marshal(compact)
}
