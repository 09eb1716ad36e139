/// The API as OpenAPI 3.1, served at `Routes.description`. Tests and a schema fuzzer compare it
/// with what the hub does.
enum Description {
    static let json = """
        {
          "openapi": "3.1.0",
          "info": {
            "title": "Concord hub",
            "version": "1",
            "description": "Keeps volumes for many devices, and decides alone about \
        their operations."
          },
          "security": [{"token": []}],
          "paths": {\(members(paths)), \(members(VolumeDescription.paths)),
            \(members(MemberDescription.paths)), \(members(LeaseDescription.paths)),
            \(members(LinkDescription.paths)), \(members(GrantDescription.paths))},
          "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": {
              "Volume": {
                "name": "volume", "in": "path", "required": true,
                "schema": {"$ref": "#/components/schemas/Id"}
              },
              "Versions": {
                "name": "Concord-Versions", "in": "header", "required": false,
                "description": "Ids of at most 128 versions, separated by commas. A member of a \
        folder is told of chunks and gets them only of the versions that it names.",
                "schema": {"type": "string"}
              }
            },
            "responses": \(responses),
            "schemas": {\(members(schemas)), \(members(ItemDescription.schemas)),
              \(members(MemberDescription.schemas)), \(members(LeaseDescription.schemas)),
              \(members(LinkDescription.schemas)), \(members(GrantDescription.schemas))}
          }
        }
        """

    /// Returns the text between the braces of an object.
    private static func members(_ object: String) -> Substring {
        object.dropFirst().dropLast()
    }
}
