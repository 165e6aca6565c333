package main

import "strings"

// Packages whose name is the end of only one path, or nearly always stands for this one.
const standardPackages = `
archive/tar archive/zip bufio bytes cmp compress/bzip2 compress/flate compress/gzip compress/zlib container/heap
container/list container/ring context crypto/aes crypto/cipher crypto/ecdsa crypto/ed25519 crypto/elliptic crypto/hmac
crypto/md5 crypto/rsa crypto/sha1 crypto/sha256 crypto/sha512 crypto/subtle crypto/tls crypto/x509 database/sql embed
encoding/ascii85 encoding/base32 encoding/base64 encoding/binary encoding/csv encoding/gob encoding/hex encoding/json
encoding/pem encoding/xml errors expvar flag fmt go/ast go/format go/parser go/token hash hash/adler32 hash/crc32
hash/crc64 hash/fnv hash/maphash html image image/color image/draw image/gif image/jpeg image/png io io/fs io/ioutil
iter log log/slog maps math math/big math/bits math/cmplx math/rand mime mime/multipart net net/http net/http/httptest
net/mail net/netip net/smtp net/textproto net/url os os/exec os/signal os/user path path/filepath reflect regexp runtime
runtime/debug slices sort strconv strings sync sync/atomic syscall testing text/tabwriter time unicode unicode/utf16
unicode/utf8 unique unsafe`

// packageNamed finds the package for a name and the members that are used; empty if it is not clear.
func packageNamed(name, used string) string {
	if name == "rand" {
		switch used {
		case "Reader", "Prime", "Text":
			return "crypto/rand"
		case "N", "IntN", "Int64N", "Uint64N", "Int32N", "Uint32N", "UintN", "NewPCG", "NewChaCha8", "PCG", "ChaCha8":
			return "math/rand/v2"
		}
	}
	for _, path := range strings.Fields(standardPackages) {
		if path[strings.LastIndex(path, "/")+1:] == name {
			return path
		}
	}
	return ""
}
