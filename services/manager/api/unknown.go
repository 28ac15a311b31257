package api

import "google.golang.org/protobuf/reflect/protoreflect"

// dropUnknown drops the fields of a message, and of those in it, that this manager does not know. No limit holds for them: they
// would be stored, told to others and kept in memory with the rest. Nobody loses anything by that: managers are upgraded first.
func dropUnknown(message protoreflect.Message) {
	if len(message.GetUnknown()) > 0 {
		message.SetUnknown(nil)
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil, field.IsMap(): // labels are all the maps that there are
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
