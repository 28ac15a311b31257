package gatherer

// MemoryLimit and WindowMemory are how much memory there is.
var (
	MemoryLimit  = memoryLimit
	WindowMemory = windowMemory
)
