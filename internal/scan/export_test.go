package scan

// AskAlways has the scanner ask before each request whether it is still wanted.
func (s *Scanner) AskAlways() { s.askEvery = 0 }
