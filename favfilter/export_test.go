package favfilter

// AppendRice appends the codes of a run, for the representations that a Window is compared with.
func AppendRice(dst []byte, numbers []uint64, k uint8) []byte { return appendRice(dst, numbers, k) }

// DecodeRice decodes what AppendRice appended.
func DecodeRice(numbers []uint64, data []byte, width, k uint8) bool {
	return decodeRice(numbers, data, width, k)
}

// RiceParameter returns the best parameter of the codes.
func RiceParameter(width uint8, count int) uint8 { return riceParameter(width, count) }
