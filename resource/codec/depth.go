package codec

import "errors"

// maxDepth bounds how deep the objects and lists of a document may lie in each other. The cost of finding out who owns a
// field grows with the square of its depth, and nothing that people write comes near.
//
// Unlike Kubernetes, whose bound is 10,000, documents of more than 256 levels are refused.
const maxDepth = 256

var errDepth = errors.New("exceeded max depth")

// CheckDepth refuses a JSON document that is nested too deep. What is no JSON may pass.
func CheckDepth(doc []byte) error {
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = endOfText(doc, i)
		case '{', '[':
			if depth++; depth > maxDepth {
				return errDepth
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// endOfText is the index of the quote that ends the text which begins at i, or of the document's end.
func endOfText(doc []byte, i int) int {
	for i++; i < len(doc) && doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i
}
