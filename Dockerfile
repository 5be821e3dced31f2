# Plimsoll without a shell and not as root, for loads on what runs elsewhere:
#   docker build --tag plimsoll .
#   docker run --rm --network host plimsoll hit http://localhost:8080/
#   docker run --rm --network host --user "$(id -u):$(id -g)" --volume "$PWD:/work" --workdir /work plimsoll run experiment.toml
# What an experiment starts itself (`start`, targets, virtual hosts) needs a shell, and more: install Plimsoll for that.
FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package plimsoll --features scripts

FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="Plimsoll" \
      org.opencontainers.image.source="https://github.com/plimsoll-bench/plimsoll" \
      org.opencontainers.image.licenses="Apache-2.0 OR MIT"
COPY --from=build /source/target/release/plimsoll /source/target/release/plimsoll-runner /usr/local/bin/
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/plimsoll/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/plimsoll"]
