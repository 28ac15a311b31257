package api

import "google.golang.org/protobuf/reflect/protoreflect"

// dropUnknown drops the fields of a message, and of those in it, that this manager does not know. No limit holds for such fields: they would be
// stored, told to others and kept in memory with the rest. Nobody loses anything by that, since managers are upgraded first.
func dropUnknown(message protoreflect.Message) {
	if len(message.GetUnknown()) > 0 {
		message.SetUnknown(nil)
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil, field.IsMap(): // the only maps are labels
		case field.IsList():
			for i := range value.List().Len() {
				dropUnknown(value.List().Get(i).Message())
			}
		default:
			dropUnknown(value.Message())
		}
		return true
	})
}
