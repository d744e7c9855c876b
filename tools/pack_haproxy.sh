#!/bin/sh
# Packs this host's haproxy with every library that it loads, the C library and the loader too, into FOLDER, to run on
# a machine where nothing can be installed (same processor, Linux):
#     tools/pack_haproxy.sh FOLDER
#     RANKMUSTER_DRILL_HAPROXY=FOLDER/haproxy python -m rankmuster.drill incident ...
set -eu

folder=${1:?"usage: $0 FOLDER"}
program=$(command -v haproxy || command -v /usr/sbin/haproxy) || {
    echo "haproxy is not installed here: apt-get install haproxy" >&2
    exit 3
}
mkdir -p "$folder/lib"
cp -L "$program" "$folder/lib/haproxy.bin"
# "name => path (address)", and the loader alone as "path (address)"; linux-vdso has no file
ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
    cp -L "$library" "$folder/lib/"
done
loader=$(ldd "$program" | awk '$1 ~ /^\// { print $1 }' | head -n 1)
cat >"$folder/haproxy" <<EOF
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/lib
exec "\$here/$(basename "$loader")" --library-path "\$here" "\$here/haproxy.bin" "\$@"
EOF
chmod 755 "$folder/haproxy"
"$folder/haproxy" -v | head -n 1
du -sh "$folder" | cut -f1
