package supply

// Look replaces how the source is looked at.
func (s *Object) Look(look func() error) { s.look = look }
