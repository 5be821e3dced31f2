//! Services that need no file: health checks, and server reflection.

use std::sync::{Arc, LazyLock};

use crate::protobuf::types::MessageTypes;
use crate::protobuf::{proto_text, types::ProtoFile};

const HEALTH: &str = "syntax = \"proto3\"; package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse {
  enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }
  ServingStatus status = 1;
}
service Health {
  rpc Check(HealthCheckRequest) returns (HealthCheckResponse);
  rpc Watch(HealthCheckRequest) returns (stream HealthCheckResponse);
}";

/// Server reflection, as far as it is used here. `VERSION` stands for the version.
const REFLECTION: &str = "syntax = \"proto3\"; package grpc.reflection.VERSION;
service ServerReflection { rpc ServerReflectionInfo(stream ServerReflectionRequest) returns (stream ServerReflectionResponse); }
message ServerReflectionRequest {
  string host = 1;
  oneof message_request {
    string file_by_filename = 3; string file_containing_symbol = 4; string list_services = 7;
  }
}
message ServerReflectionResponse {
  string valid_host = 1;
  oneof message_response {
    FileDescriptorResponse file_descriptor_response = 4;
    ListServiceResponse list_services_response = 6;
    ErrorResponse error_response = 7;
  }
}
message FileDescriptorResponse { repeated bytes file_descriptor_proto = 1; }
message ListServiceResponse { repeated ServiceResponse service = 1; }
message ServiceResponse { string name = 1; }
message ErrorResponse { int32 error_code = 1; string error_message = 2; }";

/// The versions of server reflection, the newest first.
pub const VERSIONS: [&str; 2] = ["v1", "v1alpha"];

static TYPES: LazyLock<Arc<MessageTypes>> = LazyLock::new(|| {
    let mut files: Vec<ProtoFile> = proto_text::parse("health", HEALTH).into_iter().collect();
    for version in VERSIONS {
        files.extend(proto_text::parse(version, &REFLECTION.replace("VERSION", version)));
    }
    // A test links them.
    Arc::new(MessageTypes::link(files).unwrap_or_default())
});

/// Returns the types of the built-in services.
pub fn types() -> &'static Arc<MessageTypes> {
    &TYPES
}
